"""Training from text to a folder of the ecosystem: `transformula.train` and the command `train`."""
