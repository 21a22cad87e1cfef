"""The architectures as .formula files; a package so that importlib.resources finds them; imports nothing."""
