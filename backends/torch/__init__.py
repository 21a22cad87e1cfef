"""The PyTorch backend: a compiled model as one readable nn.Module."""
