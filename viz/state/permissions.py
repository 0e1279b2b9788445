"""Permissions of visitors, from the environment: everything, or with VITRINE_PUBLIC=1 what a server open to strangers
can bear. Each permission and each quota has a variable of its own, which counts before VITRINE_PUBLIC.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import streamlit as st

from viz.i18n.catalogue import _

PUBLIC = "VITRINE_PUBLIC"
METRICS = "VITRINE_METRICS"  # networks whose machines may read the figures of this server, 10.0.0.0/8,fd00::/8
LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
# Headers of proxies, beside X-Forwarded-…
PROXIED = frozenset(
    {"forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip", "x-cluster-client-ip"}
    | {"fastly-client-ip", "x-original-forwarded-for", "x-envoy-external-address", "cf-ray"}
)


class Permission(StrEnum):
    """Something that visitors may do or not: its variable in the environment, 0 or 1."""

    UPLOADS = "VITRINE_UPLOADS"
    HUB = "VITRINE_HUB"
    SAVING = "VITRINE_SAVING"
    PATHS = "VITRINE_PATHS"


class Quota(StrEnum):
    """A limit of what visitors may take: its variable in the environment, which says its unit."""

    TRAINING_TIME = "VITRINE_TRAINING_MINUTES"  # of one training
    MODEL_SIZE = "VITRINE_MODEL_MILLIONS"  # parameters of a model that is trained
    TEXT_LENGTH = "VITRINE_TEXT_LETTERS"  # of a field
    FILM_SIZE = "VITRINE_FILM_MEGABYTES"  # of the film of one training
    UPLOAD_SIZE = "VITRINE_UPLOAD_MEGABYTES"  # of what one visitor has here at a time
    UPLOADS_SIZE = "VITRINE_UPLOADS_MEGABYTES"  # of what all visitors have
    KEPT = "VITRINE_KEPT_MINUTES"  # that uploads and trainings outlive their last window, for a reload


# Limits open to strangers, and else; None: none.
LIMITS: dict[Quota, tuple[float, float | None]] = {
    Quota.TRAINING_TIME: (10, None),
    Quota.MODEL_SIZE: (20, None),
    Quota.TEXT_LENGTH: (2_000, 100_000),
    Quota.FILM_SIZE: (32, None),
    Quota.UPLOAD_SIZE: (500, 4_000),
    Quota.UPLOADS_SIZE: (2_000, 20_000),
    Quota.KEPT: (5, 10),
}


def may(permission: Permission) -> bool:
    """True if visitors may do it. What is neither 0 nor 1 says nothing."""
    setting = os.environ.get(permission, "").strip()
    return setting == "1" if setting in ("0", "1") else not is_public()


def limit(quota: Quota) -> float | None:
    """The limit that counts; None: none. What is no positive number says nothing."""
    public, private = LIMITS[quota]
    usual = public if is_public() else private
    try:
        setting = float(os.environ.get(quota, ""))
    except ValueError:
        return usual
    return setting if 0 < setting < float("inf") else usual


def longest_text() -> int:
    """Characters that a text field may hold."""
    return int(limit(Quota.TEXT_LENGTH) or 0)


def seconds_kept() -> float:
    """Seconds that uploads and trainings outlive their last window."""
    return 60 * (limit(Quota.KEPT) or 0)


def is_public() -> bool:
    """True if the server is open to strangers."""
    return os.environ.get(PUBLIC, "").strip() == "1"


def refused(permission: Permission) -> str:
    """Reason for a visitor who may not; empty where he may."""
    if may(permission):
        return ""
    return {
        Permission.UPLOADS: _("This server takes no files."),
        Permission.HUB: _("This server fetches nothing from Hugging Face."),
        Permission.SAVING: _("This server saves nothing: download the model instead."),
        Permission.PATHS: _("Paths of this server's disk are not for visitors."),
    }[permission]


def may_name_paths(headers: Mapping[str, Any]) -> bool:
    """True if this visitor may name paths of the disk: where he sits at this machine, or VITRINE_PATHS says so."""
    if os.environ.get(Permission.PATHS, "").strip() in ("0", "1"):
        return may(Permission.PATHS)
    return not is_public() and is_local(str(st.get_option("server.address") or ""), headers)


def is_local(address: str, headers: Mapping[str, Any]) -> bool:
    """True if visitors sit at this machine.

    A server that listens elsewhere has visitors whose business its disk is not; one behind a proxy listens here and
    has them all the same, which the proxy's headers, or the name that the browser asked for, give away.
    """
    host = next((str(value) for name, value in headers.items() if name.lower() == "host"), "localhost")
    name = host if host in LOCAL else host.rpartition(":")[0] or host
    return address in LOCAL and name in LOCAL and not is_forwarded(headers)


def is_forwarded(headers: Mapping[str, Any]) -> bool:
    """True if a proxy has passed a request on."""
    return any(name.lower() in PROXIED or name.lower().startswith("x-forwarded") for name in headers)


def is_here(client: tuple[str, int] | None, headers: Mapping[str, Any]) -> bool:
    """True if who asks is this very machine, or one of the networks in VITRINE_METRICS, and no proxy asks for somebody:
    a proxy often stands in a network that may. client: address and port.
    """
    try:
        networks = [
            ipaddress.ip_network(text.strip()) for text in os.environ.get(METRICS, "").split(",") if text.strip()
        ]
    except ValueError:
        return False
    address = ip_address(client[0]) if client else None
    if address is None or is_forwarded(headers):
        return False
    return address.is_loopback or any(address in network for network in networks)


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is, IPv4 where IPv6 only holds one (`::ffff:10.0.0.1`); None: it is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
