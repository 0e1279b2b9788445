"""Faster computations of the same numbers."""

from __future__ import annotations


def install() -> None:
    """Let every network compute by these kernels wherever single steps are not recorded or changed."""
    from model.fast.attention import attend, project
    from model.fast.decoding import step_of
    from model.fast.dropout import dropout
    from model.network import kernels

    kernels.install(kernels.Kernels(project, attend, dropout, step_of))
