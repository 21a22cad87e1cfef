"""Text of a spec <-> syntax tree with source spans; knows nothing of graphs."""
