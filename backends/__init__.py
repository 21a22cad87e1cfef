"""Formula graph -> readable module or picture, one folder per backend."""
