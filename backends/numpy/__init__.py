"""The NumPy backend: a formula graph becomes one readable module that imports only numpy."""
