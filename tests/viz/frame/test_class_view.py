"""A teacher's view and those who follow it: by the channel as the bytes that the teacher was sent, by the script where
the page becomes another; and nobody steers but the teacher.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from model.inference.text_model import TextModel
from tests.app_reading import model_list, sent, sound, type_in, typed
from tests.app_reading import opened as app_at
from tests.viz.frame.window import PATIENCE, Window, in_loop, opened
from tests.viz.small import looking, small_model
from viz.components.registry import pack
from viz.components.view import PackedView, live
from viz.frame import class_strip, class_view
from viz.frame.page_layout import PageLayout
from viz.pages.lessons import joining
from viz.state import browsers, training
from viz.state.class_sessions import CLASS_SESSIONS, ClassSession, seat_of
from viz.state.serving import serving
from viz.state.session import Key, Session, current_session
from viz.ui.parts import Drawing

TEXT, OTHER, THIRD = "The cat sees.", "The dog", "The doctor sees the"
DRAWN: list[Session] = []  # sessions whose own views were computed


def views(_model: Any) -> Drawing:
    session = current_session()
    DRAWN.append(session)
    data = pack({"tokens": session.trace.source_tokens, "head": session.selection.head})
    yield [(None, PackedView(lambda **_given: None, "near", data, {"head": choose_head}))]
    return None


@live
def choose_head(head: int) -> None:
    current_session().select(head=int(head))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> TextModel:
    return small_model(tmp_path_factory.mktemp("checkpoints") / "small")


def showing(model: TextModel, language: str = "en") -> Session:
    session = looking(model, TEXT)
    session.stage = PageLayout(model, False, views, language)
    session.followed = {"near"}
    return session


@pytest.fixture
def teacher(model) -> Iterator[Session]:
    DRAWN.clear()
    st.query_params.clear()  # of nobody, where tests before have left something
    session = showing(model)
    CLASS_SESSIONS.open(session)
    draw_page(session)
    yield session
    CLASS_SESSIONS.end(session)


def draw_page(session: Session) -> None:
    """As the script does it."""
    with serving(session):
        for placed in views(session.model):
            session.views.update({view.key: view for _place, view in placed})
        if (seat := seat_of(session)) and not seat.teaches and seat.room.view:
            seat.drawn = seat.room.view.run, seat.room.view.layout
        class_view.page_drawn(session, session.stage)
    DRAWN.clear()


def room_of(session: Session) -> ClassSession:
    seat = seat_of(session)
    assert seat is not None
    return seat.room


def follower_of(teacher: Session, language: str = "en") -> Session:
    session = showing(teacher.model, language)
    CLASS_SESSIONS.join(session, room_of(teacher).code)
    draw_page(session)
    return session


def type_there(window: Window, text: str, edit: int) -> None:
    window.say(type=Key.SOURCE, text=text, edit=edit)


async def near(window: Window, session: Session, text: str) -> dict[str, Any]:
    """The first picture of this text that comes."""
    labels = session.model.source_tokens(text).labels
    while (view := await window.view("near"))["tokens"] != labels:
        pass
    return view


def test_what_a_teacher_types_and_chooses_comes_to_who_follows_as_the_same_bytes_computed_once(teacher):
    followers = [follower_of(teacher) for _ in range(3)]

    async def use() -> None:
        async with opened(teacher.token) as first, opened(followers[0].token) as second, opened(followers[1].token):
            type_there(first, OTHER, 7)
            assert await near(second, teacher, OTHER) == await near(first, teacher, OTHER)
            assert followers[0].texts["source"] == OTHER
            first.say(answer="near", name="head", value=1)
            assert (await second.view("near"))["head"] == 1
            assert followers[0].selection.head == 1
            type_there(first, THIRD, 8)
            field = await second.view("source")
            assert (field["text"], field["edit"]) == (THIRD, followers[0].edits["source"])
            assert followers[0].trace is teacher.trace  # with which he goes on when he looks around alone
            assert all(each is teacher for each in DRAWN)

    assert in_loop(use) == []


def test_who_reads_another_language_draws_once_for_all_who_read_that(teacher):
    followers = [follower_of(teacher, "zh") for _ in range(3)]

    async def use() -> None:
        async with opened(teacher.token) as first, opened(followers[0].token) as one, opened(followers[1].token) as two:
            type_there(first, OTHER, 1)
            heads = [await near(each, teacher, OTHER) for each in (first, one, two)]
            assert heads[0] == heads[1] == heads[2]
            assert sum(each is not teacher for each in DRAWN) == 1

    assert in_loop(use) == []


def test_a_forged_choice_of_one_who_follows_is_drawn_for_nobody_else(teacher):
    hostile, other = follower_of(teacher, "zh"), follower_of(teacher, "zh")

    async def use() -> None:
        async with opened(teacher.token) as first, opened(hostile.token) as one:
            hostile.address.set("attention", "encoder")  # by a browser that does not say so
            type_there(first, OTHER, 1)
            await near(one, teacher, OTHER)
            view = room_of(teacher).view
            assert view is not None
            assert set(view.pictures) == {"en"}
            async with opened(other.token) as two:
                await near(two, teacher, OTHER)
                end = time.monotonic() + PATIENCE
                while room_of(teacher).view.pictures.keys() != {"en", "zh"}:  # type: ignore[union-attr]
                    assert time.monotonic() < end
                    await asyncio.sleep(0.02)

    assert in_loop(use) == []


@pytest.mark.parametrize(
    "act", [{"type": "source", "text": "Mine", "edit": 9}, {"answer": "near", "name": "head", "value": 1}]
)
def test_who_types_or_clicks_looks_around_alone_until_he_comes_back(teacher, act):
    follower = follower_of(teacher)

    async def use() -> None:
        async with opened(teacher.token) as first, opened(follower.token) as second:
            type_there(first, OTHER, 1)
            await near(second, teacher, OTHER)
            second.say(**act)
            while (await second.view("class_session"))["role"] != "alone":
                pass
            type_there(first, THIRD, 2)
            await near(first, teacher, THIRD)
            assert follower.texts["source"] == act.get("text", OTHER)
            second.say(answer="class_session", name="follows", value=True)
            await second.script()  # which brings page and choices
            draw_page(follower)
            follower.wake()
            await near(second, teacher, THIRD)
            assert follower.texts["source"] == THIRD

    assert in_loop(use) == []


def test_forged_messages_of_who_follows_steer_nothing(teacher):
    follower, room = follower_of(teacher), room_of(teacher)

    async def use() -> None:
        async with opened(follower.token) as window:
            await window.view("class_session")
            for name, value in (("end", 1), ("names", True), ("publish", {}), ("follows", "<script>"), ("name", [1])):
                if name != "end":
                    window.say(answer="class_session", name=name, value=value)
            window.say(answer="class_bars", name="end", value=1)
            window.say(seen=0)
            await window.heard()
            await asyncio.sleep(0.2)

    assert in_loop(use) == []
    assert not room.ended
    assert not room.names_wanted
    assert room.leader == teacher.token


def test_an_end_while_followers_type_leaves_them_their_page(teacher):
    follower = follower_of(teacher)

    async def use() -> None:
        async with opened(follower.token) as window:
            type_there(window, OTHER, 1)
            joining.CLASS_SESSIONS.end(teacher)
            type_there(window, THIRD, 2)
            while (await window.view("source"))["edit"] != 2:
                pass

    assert in_loop(use) == []
    assert seat_of(follower) is None
    assert follower.texts["source"] == THIRD


def test_a_page_comes_within_300_milliseconds(teacher):
    """Of a small model: what is between the two windows, and not what the pictures cost."""
    follower = follower_of(teacher)

    async def use() -> None:
        async with opened(teacher.token) as first, opened(follower.token) as second:
            waits = []
            for edit, text in enumerate((OTHER, THIRD, TEXT, OTHER, THIRD), 1):
                type_there(first, text, edit)
                await near(first, teacher, text)
                since = time.perf_counter()
                await near(second, teacher, text)
                waits.append(time.perf_counter() - since)
            assert sorted(waits)[2] < 0.3

    assert in_loop(use) == []


SCREEN = {"figure": "near", "place": 0, "blank": False, "pointer": [-2, 1.5, 0.5], "step": None}


def present(window: Window, **parts: Any) -> None:
    window.say(answer="class_session", name="screen", value=SCREEN | parts)


async def screens_until(window: Window, step: int) -> list[Any]:
    """What comes of a teacher's screen, until that at this step of the film."""
    screens: list[Any] = []
    while not screens or (screens[-1] or {}).get("step") != step:
        if (message := await window.message()).keys() == {"screen"}:
            screens.append(message["screen"])
    return screens


def test_what_a_teacher_presents_comes_to_all_and_of_it_only_the_newest_to_who_is_slow(teacher):
    followers = [follower_of(teacher) for _ in range(2)]
    room = room_of(teacher)

    async def use() -> None:
        async with opened(teacher.token) as first, opened(followers[0].token) as one, opened(followers[1].token) as two:
            await asyncio.gather(one.view("class_session"), two.view("class_session"))
            two.reads.clear()
            for step in range(30):
                present(first, step=step)
                assert (await screens_until(one, step))[-1] == SCREEN | {"step": step}  # nobody waits for the slow one
            two.reads.set()
            assert len(await screens_until(two, 29)) <= 2
            for forged in ({"figure": "<b>"}, {"pointer": [0, "NaN", 1]}, {"pointer": 1}, {"place": None}):
                present(first, **forged)
            present(one, step=99)  # who is no teacher cannot steer
            present(first, step=30)
            await asyncio.gather(screens_until(one, 30), screens_until(two, 30))
            assert room.screen == SCREEN | {"step": 30}
            one.say(answer="class_session", name="follows", value=False)
            while (message := await one.message()).keys() != {"screen"}:
                pass
            assert message == {"screen": None}  # who looks around alone is shown nothing more
            present(first, step=31)
            one.say(answer="class_session", name="follows", value=True)
            assert await screens_until(one, 31)
            joining.CLASS_SESSIONS.end(teacher)
            while (message := await two.message()) != {"screen": None}:
                pass

    assert in_loop(use) == []


# By the script: the whole application twice, in one process.


def session_of(app: AppTest) -> Session:
    session: Session = app.session_state[Key.SESSION]
    return session


def test_the_script_takes_over_page_model_texts_choices_and_lesson():
    teacher = app_at("lessons")
    teacher.button(key="class_begin").click().run()
    code = room_of(session_of(teacher)).code
    try:
        assert teacher.query_params["class"] == code
        assert sent(teacher, "class_session")[0]["role"] == "teacher"
        follower = sound(app_at("", join=code))
        assert sent(follower, "class_session")[0]["role"] == "follower"
        assert page_of(follower) == "lessons"
        teacher.button(key="open_causal-mask").click().run()
        teacher._page_hash = calc_hash(page_of(teacher))  # which AppTest forgets after a run that has changed it
        type_in(teacher, "source", "The old dog sleeps.")
        sound(follower.run())
        assert page_of(follower) == page_of(teacher) != "lessons"
        assert typed(follower, "source") == "The old dog sleeps."
        assert follower.query_params["lesson"] == "causal-mask"
        assert sent(follower, "tokens")[0]["source"] == sent(teacher, "tokens")[0]["source"]
        assert session_of(follower).trace is session_of(teacher).trace
        model_list(teacher).set_value("reverse").run()
        sound(follower.run())
        assert session_of(follower).model.name == "reverse"
    finally:
        CLASS_SESSIONS.end(session_of(teacher))
    sound(follower.run())
    assert seat_of(session_of(follower)) is None
    assert "join" not in follower.query_params


def page_of(app: AppTest) -> str:
    return str(session_of(app).stage.page)


def test_a_code_that_is_none_is_a_sentence_and_literal():
    app = app_at("lessons", join="**bold**<b>")
    assert not app.exception
    assert [each.value for each in app.warning] == [
        "There is no class session boldb here: it has ended, or another server holds it. Ask for its link."
    ]
    assert "join" not in app.query_params
    app.text_input(key=joining.CODE).set_value("nothing").run()
    assert "no class session nothing here" in app.warning[0].value


def test_a_model_that_is_the_teachers_alone_is_said_and_not_shown(model):
    teacher = app_at("attention")
    joining.CLASS_SESSIONS.open(session_of(teacher))
    teacher.run()
    room = room_of(session_of(teacher))
    try:
        follower = sound(app_at("attention", join=room.code))
        assert room.view is not None
        with_own = room.view.__class__(**{**vars(room.view), "model": "*mine*", "run": 99, "layout": 99})
        room.view = with_own
        sound(follower.run())
        assert session_of(follower).model.name == "eng-cmn"
        assert "shows *mine*, a model" in sent(follower, "class_session")[0]["problem"]
    finally:
        CLASS_SESSIONS.end(session_of(teacher))


def test_who_follows_keeps_his_own_language_and_may_answer_only_what_is_before_the_class():
    teacher = app_at("lessons")
    teacher.button(key="class_begin").click().run()
    room = room_of(session_of(teacher))
    try:
        teacher.button(key="open_causal-mask").click().run()
        follower = sound(app_at("", join=room.code, language="zh"))
        assert sent(follower, "class_session")[0]["sentence"] == "你正在跟随老师的画面。"
        guess = next(each for each in follower.get("button_group") if "guess_" in each.proto.id)
        assert guess.proto.options
        assert not sent(teacher, "class_bars")[0]["sentence"].startswith("1")
        (question,) = room.answers
        CLASS_SESSIONS.answer(session_of(follower), question, 1)
        CLASS_SESSIONS.answer(session_of(follower), "another", 1)
        teacher._page_hash = calc_hash(page_of(teacher))
        teacher.run()
        assert [each["count"] for each in sent(teacher, "class_bars")[0]["bars"]][:2] == [0, 1]
        table = class_strip.answer_table(seat_of(session_of(teacher)))
        assert table["count"].tolist() == [1]
        CLASS_SESSIONS.want_names(session_of(teacher), True)
        CLASS_SESSIONS.give_name(session_of(follower), "=HYPERLINK(1)")
        sound(teacher.run())
        header = sent(teacher, "class_session")[0]
        assert header["names"] == ["=HYPERLINK(1)"]
        assert "'=HYPERLINK(1)" in header["csv"]
        assert "=HYPERLINK" not in str(sent(follower.run(), "class_session")[0]["names"])
    finally:
        CLASS_SESSIONS.end(session_of(teacher))


def test_the_script_of_who_follows_waits_where_only_a_text_is_new_until_the_teachers_hands_rest(teacher):
    follower = follower_of(teacher)

    def is_due() -> bool:
        return class_view.is_script_due(follower)

    def script_of_teacher(text: str = "", layer: int | None = None, **address: str) -> None:
        st.query_params.update(address)
        with serving(teacher):
            teacher.texts.typed[Key.SOURCE] = text or teacher.texts.typed.get(Key.SOURCE, TEXT)
            if layer is not None:
                teacher.select(layer=layer)
            class_view.page_drawn(teacher, teacher.stage)

    assert not is_due()
    script_of_teacher(OTHER)
    assert not is_due()
    with patch.object(class_view, "LEISURE", 0.0):
        assert is_due()
    script_of_teacher(layer=1)  # a choice, behind the text
    assert is_due()
    draw_page(follower)
    script_of_teacher(THIRD)
    assert not is_due()
    script_of_teacher(lesson="decoding")  # another layout
    assert is_due()
    draw_page(follower)
    script_of_teacher(TEXT, lesson="decoding")  # whose question is of the text
    assert is_due()


def test_who_follows_sees_that_what_the_script_draws_is_of_the_text_before(teacher):
    follower = follower_of(teacher)

    async def use() -> None:
        async with opened(teacher.token) as first, opened(follower.token) as second:
            await near(second, teacher, TEXT)
            type_there(first, OTHER, 1)
            while "near" not in (message := await second.message())["views"]:
                pass
            assert message["moved"]

    assert in_loop(use) == []


def test_a_window_that_was_hidden_is_sent_what_it_missed_when_it_is_seen_again(teacher):
    follower = follower_of(teacher)

    async def use() -> None:
        async with opened(teacher.token) as first, opened(follower.token) as second:
            await near(second, teacher, TEXT)
            second.say(hidden=True)
            await second.heard()
            type_there(first, OTHER, 1)
            await near(first, teacher, OTHER)
            second.say(answer="class_session", name="name", value="Ada")  # a turn, in which nothing is sent
            await asyncio.sleep(0.2)
            assert follower.texts.typed.get("source") != OTHER
            second.say(hidden=False)
            await near(second, teacher, OTHER)

    assert in_loop(use) == []


def run_as(app: AppTest, browser: str) -> AppTest:
    """The same after a run in a browser with this secret."""
    with patch.object(browsers, "browser", lambda: browser):
        return sound(app.run())


def begin_training(app: AppTest, browser: str) -> str:
    """Key of a training on a copy of the model that is shown, in a browser with this secret."""
    session = session_of(run_as(app, browser))
    model = session.stage.model
    with serving(session):
        plan = training.usual_plan(model)
        data = plan.data(model)
        training.begin(session, model, training.material_of(model, data), plan.settings, data.source)
    app.session_state[Key.MODEL] = training.ENTRY  # as the button does, in a run of the script
    run_as(app, browser)
    return session.training.run


def test_a_training_of_the_teacher_is_watched_and_ones_own_comes_back():
    teacher, follower = app_at("attention"), app_at("attention")
    keys = [begin_training(teacher, "teacher"), begin_training(follower, "follower")]
    try:
        CLASS_SESSIONS.open(session_of(teacher))
        run_as(teacher, "teacher")
        CLASS_SESSIONS.join(session_of(follower), room_of(session_of(teacher)).code)
        watched = session_of(run_as(follower, "follower"))
        assert watched.training.run == keys[0]
        assert watched.stage.trained
        assert training.training(watched) is not None
        assert training.steered(watched) is None  # seen, not steered
        CLASS_SESSIONS.end(session_of(teacher))
        run_as(follower, "follower")
        assert watched.training.run == keys[1]
        assert training.steered(watched) is not None
    finally:
        CLASS_SESSIONS.end(session_of(teacher))
        for key in keys:
            training.trainings().end(key)
