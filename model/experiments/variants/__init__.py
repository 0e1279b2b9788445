"""Attention variants: what has been put in the place of softmax(Q Kᵀ / √d_k) V, one file each (row 45)."""
