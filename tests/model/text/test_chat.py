"""Conversations by templates: as transformers writes them, in a sandbox, and what the assistant wrote of them."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from model.text.chat import Turn, converse, takes, tools_in

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = """{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}{% generation %}{{ m.content | trim }}<|im_end|>{% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>' }}
    {%- endif %}
{%- endfor %}"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system role') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}
{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""
OTHER = """{% for m in messages %}{% if loop.last %}{% continue %}{% endif %}[{{ m | tojson }}]{% endfor %}
{{ eos_token }}"""
TOOLED = """{%- if tools is not none %}{{ '# Tools\n' }}
{%- for tool in tools %}{{ tool | tojson(indent=2, sort_keys=true) }}{{ tool | tojson(separators=(',', ':')) }}
{%- endfor %}{%- endif %}{% if documents is none %}!{% endif %}
{%- for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>
{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>{% endif %}{% endif %}"""
CALL = {"type": "function", "function": {"name": "add", "description": "a<b — 加", "parameters": {"type": "object"}}}
TALK = [
    Turn("user", " What is 你好? "),
    Turn("assistant", "A <b>greeting</b>.\n"),
    Turn("user", "😀"),
    Turn("assistant", "!"),
]
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}


def theirs(template):
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=template, **NAMES)


@pytest.mark.parametrize("template", [CHATML, MARKED, GEMMA, OTHER])
@pytest.mark.parametrize("prompt", [False, True])
def test_a_conversation_is_written_as_transformers_writes_it(template, prompt):
    talk = [{"role": turn.role, "content": turn.content} for turn in TALK]
    expected = theirs(template).apply_chat_template(talk, tokenize=False, add_generation_prompt=prompt)
    assert converse(template, TALK, NAMES, prompt).text == expected


@pytest.mark.parametrize("tools", [None, [], [CALL, CALL]])
@pytest.mark.parametrize("thinking", [None, True, False])
def test_tools_and_thinking_reach_the_template(tools, thinking):
    talk = [{"role": turn.role, "content": turn.content} for turn in TALK]
    chosen = {} if thinking is None else {"enable_thinking": thinking}
    options = {"tokenize": False, "add_generation_prompt": True, "tools": tools}
    expected = theirs(TOOLED).apply_chat_template(talk, **options, **chosen)
    assert converse(TOOLED, TALK, NAMES, True, tools, thinking).text == expected
    assert takes(TOOLED, "tools")
    assert not takes(CHATML, "enable_thinking")


def test_tools_are_a_list_of_json_objects():
    assert tools_in(" ") is None
    assert tools_in(json.dumps(CALL)) == tools_in(json.dumps([CALL])) == [CALL]
    for text, sentence in (("[1]", "must be a list of JSON objects"), ("[{]", "the list of tools")):
        with pytest.raises(ValueError, match=sentence):
            tools_in(text)


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (CHATML, ["A <b>greeting</b>.\n<|im_end|>\n", "!<|im_end|>\n"]),
        (MARKED, ["A <b>greeting</b>.<|im_end|>", "!<|im_end|>"]),
        (GEMMA, ["A <b>greeting</b>.<end_of_turn>\n\n", "!<end_of_turn>\n\n"]),
        (OTHER, None),  # leaves out the last turn: what came before is none of its beginning
    ],
)
def test_what_the_assistant_wrote_is_known(template, written):
    made = converse(template, TALK, NAMES)
    if written is None:
        with pytest.raises(ValueError, match="does not tell which part"):
            made.counts([1, 2])
        return
    assert [made.text[first:last] for first, last in made.written] == written
    ends = list(range(1, len(made.text) + 1))  # a token a letter
    assert sum(made.counts(ends)) == sum(map(len, written))


def test_the_marked_parts_are_those_of_transformers():
    talk = [{"role": turn.role, "content": turn.content} for turn in TALK]
    reference = theirs(MARKED)
    reference.backend_tokenizer.model = models.BPE(
        {letter: row for row, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []
    )
    given = reference.apply_chat_template(
        talk, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, return_offsets_mapping=True
    )
    made = converse(MARKED, TALK, NAMES)
    ends = [end for _begin, end in reference(made.text, return_offsets_mapping=True)["offset_mapping"]]
    plain = torch.tensor(made.counts(ends)).sum()
    assert int(plain) == len("A <b>greeting</b>.<|im_end|>!<|im_end|>") == sum(given["assistant_masks"])


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{{ ''.__class__.__mro__ }}", "refuses this one: SecurityError"),
        ("{{ messages.append(1) }}", "refuses this one: SecurityError"),
        ("{{ 'a' * 10**10 }}", "refuses this one: MemoryError|too much time or memory"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "too much time or memory"),
        ("{% for a in range(99999) %}" + "a" * 99 + "{% endfor %}", "writes more than 1,048,576 letters"),
        ("{% x", "refuses this one: TemplateSyntaxError"),
        ("{% include 'passwd' %}", "refuses this one: TypeError"),
        ("{{ raise_exception('no ' ~ messages[0].role) }}", "refuses this one: TemplateError: no user"),
    ],
)
def test_a_strangers_template_can_do_no_harm(template, sentence):
    with pytest.raises(ValueError, match=sentence):
        converse(template, TALK, NAMES)
