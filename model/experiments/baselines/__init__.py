"""Layers beside which attention is measured: a recurrent one and a stack of convolutions."""
