"""The same numbers, sooner."""

from __future__ import annotations


def install() -> None:
    """Let every network compute in the quickest way that is known here, wherever nobody needs each single step."""
    from model.fast.attention import attend, project
    from model.fast.decoding import step_of
    from model.fast.dropout import dropout
    from model.network import kernels

    kernels.install(kernels.Kernels(project, attend, dropout, step_of))
