"""Files of visitors while Streamlit has them in memory: how many there may be, and their end once they are unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.state.permissions import Permission, Quota, limit, refused
from viz.state.session import Session, all_sessions

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from model.runtime.ledger import Reservation


def held(visitor: str | None = None) -> int:
    """Bytes of the files in memory. visitor: Streamlit's name of a session; None: of all."""
    if not exists():
        return 0
    stored: dict[str, dict[str, Any]] = getattr(get_instance().uploaded_file_mgr, "file_storage", {})
    files = [stored.get(visitor, {})] if visitor is not None else list(stored.values())
    return sum(len(file.data) for each in files for file in list(each.values()))


def admit(visitor: str, size: int) -> Reservation:
    """Promise of the memory that a file takes which is about to be sent.

    Raises:
        ValueError: this server takes none, it is too large beside what this visitor or all have here, or memory has no
            room for it.
    """
    from model.runtime.memory import ledger

    catalogue.use(next((each.stage.language for each in of(visitor) if each.stage), "en"))
    if refusal := refused(Permission.UPLOADS):
        raise ValueError(refusal)
    for quota, whose in ((Quota.UPLOAD_SIZE, visitor), (Quota.UPLOADS_SIZE, None)):
        most = limit(quota)
        if most is not None and held(whose) + size > 1e6 * most:
            left = max(0.0, most - held(whose) / 1e6)
            sentence = _("The file has {size} MB, and {left} MB are left on this server: take others back first.")
            raise ValueError(sentence.format(size=f"{size / 1e6:,.1f}", left=f"{left:,.1f}"))
    return ledger().reserve("a file that is sent", size)


def say(visitor: str, sentence: str) -> None:
    """Let the page of a visitor say why a file was not taken: Streamlit's field has only a number for it."""
    for session in of(visitor):
        session.notice, session.rerun_requested = sentence, True
        session.wake()


def of(visitor: str) -> list[Session]:
    """The session of a visitor; none where it has ended."""
    return [session for session in all_sessions() if session.visitor == visitor]


def let_go(files: Sequence[UploadedFile]) -> None:
    """Take files out of memory: what they hold is elsewhere now."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not exists():
        return
    manager: Any = get_instance().uploaded_file_mgr
    for file in files:
        manager.remove_file(context.session_id, file.file_id)
