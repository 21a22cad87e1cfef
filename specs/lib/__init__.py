"""The library of formulas that the architectures import."""
