"""Adapters on the page Checkpoints, without a browser: what they change, their base, and who may name it."""

from __future__ import annotations

import io
import shutil
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.app_reading import model_list, opened, sent, sound
from tests.model.checkpoints.adapted import QUERIES, lora, write_adapter, write_settings
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.viz.pages.checkpoints.checkpoints_page import here as here
from tests.viz.pages.checkpoints.checkpoints_page import rows, said, uploaded
from tests.viz.pages.checkpoints.reading_page import columns, page
from viz.state import adapter_bases
from viz.state.checkpoints import CheckpointEntry, places

WEIGHT = f"{QUERIES}.weight"


@pytest.fixture
def models(here):
    """A base, an adapter of it that knows its path, and one that only knows a name that nothing here has."""
    folder = here / "models"
    shutil.copytree(theirs("gpt2")[1], folder / "tiny")
    write_tokenizer(folder / "tiny")
    write_adapter(folder / "adapter", folder / "tiny")
    write_adapter(folder / "lost", "somebody/large")
    return folder


def delta(models) -> tuple[np.ndarray, np.ndarray]:
    """ΔW and W of the only weight that is changed, in float64."""
    found = load_file(models / "adapter" / "adapter_model.safetensors")
    right, left = (found[f"base_model.model.{QUERIES}.lora_{letter}.weight"].double().numpy() for letter in "AB")
    return 2 * (left @ right).T, load_file(models / "tiny" / "model.safetensors")[WEIGHT].double().numpy()


def test_what_an_adapter_changes_is_shown_beside_its_base(models):
    app = page(checkpoint="adapter")
    change, weight = delta(models)
    values = np.linalg.svd(change, compute_uv=False)[:2]
    (found,) = columns(app, "adapter_tree").items()
    assert found[0] == WEIGHT
    assert found[1]["‖ΔW‖/‖W‖"] == pytest.approx(np.linalg.norm(change) / np.linalg.norm(weight), rel=1e-5)
    assert found[1]["σ₁"] == pytest.approx(values[0], rel=1e-5)
    assert found[1]["stable rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-5)
    shares = values / values.sum()
    assert found[1]["eff. rank"] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-5)
    _header, arrays = sent(app, "adapter_values")
    assert np.allclose(arrays[1], values, rtol=1e-5)
    header, arrays = sent(app, "adapter_layers")
    assert [series["name"] for series in header["series"]] == ["attn.c_attn"]
    assert arrays[1][0] == pytest.approx(np.linalg.norm(change) / np.linalg.norm(weight), rel=1e-5)
    said_of_it = [each.value for each in app.caption if "LoRA on tiny" in each.value]
    assert said_of_it == ["LoRA on tiny: 1 of 28 tensors changed · modules attn.c_attn · layers 1"]
    assert not [each for each in app.info if "changes nothing" in each.value]


def test_an_adapter_that_changes_nothing_is_said_to(models):
    tensors = lora(QUERIES, 96, 32)
    tensors[f"{QUERIES}.lora_B.weight"].zero_()
    write_adapter(models / "adapter", models / "tiny", tensors)
    (info,) = page(checkpoint="adapter").info
    assert info.value.startswith("adapter changes nothing: every ΔW is zero")


def test_it_is_compared_with_its_base_as_the_model_that_it_makes(models):
    app = page("compare", compare_b="adapter")
    assert app.selectbox(key="compare_a").value == "tiny"
    change, weight = delta(models)
    found = columns(app, "moved_tree")
    assert found[WEIGHT]["‖B−A‖/‖A‖"] == pytest.approx(np.linalg.norm(change) / np.linalg.norm(weight), rel=1e-4)
    assert [name for name, row in found.items() if row["‖B−A‖/‖A‖"]] == [WEIGHT]
    _header, arrays = sent(page("compare", compare_b="adapter", compare_view="heads"), "moved_heads")
    heads = change.T[:32].reshape(4, 8, 32), weight.T[:32].reshape(4, 8, 32)
    expected = np.linalg.norm(heads[0], axis=(1, 2)) / np.linalg.norm(heads[1], axis=(1, 2))
    assert np.allclose(arrays[0][0], expected, rtol=1e-4)


def test_their_traces_are_pinned_and_shown(models):
    app = page(checkpoint="adapter")
    app.button(key="compare_traces").click().run()
    session = sound(app).session_state["session"]
    assert (session.pin.name, session.model.name) == ("tiny", "adapter")
    expected = open_checkpoint(models / "adapter").trace(session.traced[0])
    assert torch.equal(session.trace["output.logits"], expected["output.logits"])
    before = open_checkpoint(models / "tiny").trace(session.traced[0])
    assert torch.equal(session.pin.trace["output.logits"], before["output.logits"])


def test_the_list_says_what_it_is_and_what_its_base_takes(models):
    found = rows(page("open"))
    assert found["adapter"]["format"] == "PEFT: LoRA → tiny"
    assert found["adapter"]["needs"] == found["tiny"]["needs"]
    assert found["adapter"]["kind"] == "decoder-only"
    assert (found["lost"]["format"], found["lost"]["needs"]) == ("PEFT: LoRA → somebody/large", "")


@pytest.mark.parametrize("address", [{"checkpoint": "lost"}, {"model": "lost"}])
def test_a_base_that_is_not_here_is_named_and_chosen_by_hand(address, models):
    app = page_of(**address)
    (error,) = app.error
    assert "lost is a LoRA adapter and changes 'somebody/large', which is not here: put that model" in error.value
    field = app.selectbox(key="telling_base_lost")
    assert field.options == ["tiny"]
    assert app.button(key="telling_lost").disabled
    field.set_value("tiny").run()
    app.button(key="telling_lost").click().run()
    assert sound(app).session_state["session"].model.name == "lost"
    assert app.query_params["told"] == "base:tiny@lost"
    assert "merged into tiny" in " ".join(f"{each.value} {each.help}" for each in app.caption).replace("\xa0", " ")
    again = page_of(model="lost", told="base:tiny@lost")
    assert sound(again).session_state["session"].model.name == "lost"


def test_a_base_that_does_not_fit_is_said_and_another_can_be_chosen(models):
    shutil.copytree(theirs("llama")[1], models / "other")
    write_settings(models / "adapter", base_model_name_or_path=str(models / "other"))
    app = page_of(model="adapter")
    assert "of transformer.h.0.attn.c" in app.error[0].value
    assert "which this base has not: choose the base that the adapter was trained on" in app.error[0].value
    assert app.selectbox(key="telling_base_adapter").options == ["other", "tiny"]


def page_of(**address):
    return opened("checkpoints", checkpoints_part="read", **address)


# Who may name a base.


def archive(folder) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as packed:
        for file in folder.iterdir():
            packed.write(file, f"theirs/{file.name}")
    return held.getvalue()


@pytest.mark.parametrize("local", [True, False])
def test_an_upload_leads_to_no_path_of_a_server_for_others(local, models, here, monkeypatch):
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: local)
    shutil.move(models / "tiny", here / "secret")
    write_settings(models / "adapter", base_model_name_or_path=str(here / "secret"))
    app = uploaded(page("open"), "theirs.zip", archive(models / "adapter"))
    assert ("is in the list" if local else "was not opened") in said(app)
    model_list(app).set_value("theirs").run()
    if local:
        assert sound(app).session_state["session"].model.name == "theirs"
        return
    assert "changes" in app.error[0].value
    assert "which is not here: put that model into the list of checkpoints" in app.error[0].value
    assert app.session_state["session"].model.name == "small"


def test_a_name_of_the_list_counts_for_everybody(models, here, monkeypatch):
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: False)
    write_settings(models / "adapter", base_model_name_or_path="/somewhere/of/mine/tiny")
    app = uploaded(page("open"), "theirs.zip", archive(models / "adapter"))
    model_list(app).set_value("theirs").run()
    assert sound(app).session_state["session"].model.name == "theirs"


def test_an_address_leads_to_no_path_of_a_server_for_others(models, here, monkeypatch):
    shutil.copytree(models / "tiny", here / "secret")
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: False)
    app = page_of(model="lost", told=f"base:{here / 'secret'}@lost")
    assert "which is not here" in app.error[0].value
    place = next(each for each in places() if each.name == "lost")
    with pytest.raises(CheckpointError, match="which is not here"):
        adapter_bases.base_of(place, places(), f"base:{here / 'secret'}")
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: True)
    assert adapter_bases.base_of(place, places(), f"base:{here / 'secret'}") == here / "secret"


@pytest.mark.parametrize("local", [True, False])
def test_the_film_of_a_training_opens_no_base_elsewhere_for_others(local, models, here, monkeypatch):
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: local)
    shutil.copytree(models / "tiny", here / "secret")
    for name in ("plain.pt", "bad.safetensors", "notes.txt"):
        (models / name).unlink()
    for name in ("lost", "adapter"):
        shutil.rmtree(models / name)
    for step in (1, 2):
        write_adapter(models / f"step-{step}", "somebody/large")
        (models / f"step-{step}" / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
    told = f"base:{here / 'secret'}@step-2"
    app = opened(
        "checkpoints", checkpoints_part="compare", compare_view="steps", model="step-2", told=told, source="the"
    )
    film = [each for each in app.get("bidi_component") if each.proto.id.endswith("-course_film")]
    if not local:
        assert not film or "step 2" not in [panel["name"] for panel in sent(app, "course_film")[0]["panels"]]
        assert "step-2 is a LoRA adapter and changes" in app.error[0].value
        return
    assert app.session_state["session"].model.name == "step-2"  # of the other nobody has said the base
    assert [each.value for each in app.info if "step-1 is a LoRA adapter" in each.value]
    write_settings(models / "step-1", base_model_name_or_path=str(here / "secret"))
    header, arrays = sent(sound(app.run()), "course_film")
    assert [panel["name"] for panel in header["panels"]] == ["step 1", "step 2"]
    trace = open_checkpoint(models / "step-2", base=here / "secret").trace("the")
    assert np.allclose(arrays[2], trace["decoder.layers.0.self_attention.weights"][0], atol=1e-6)


def test_an_adapter_is_never_its_own_base(models):
    write_settings(models / "lost", base_model_name_or_path="elsewhere/lost")
    place = next(each for each in places() if each.name == "lost")
    with pytest.raises(CheckpointError, match="which is not here"):
        adapter_bases.base_of(place, places())
    assert adapter_bases.base_of(CheckpointEntry("tiny", models / "tiny", "folder"), places()) is None
