"""Simple English sentences with their Chinese translations, put together by rule: pairs of our own to train on."""

from __future__ import annotations

from itertools import product

from model.data import Pair

SUBJECTS = {
    "I": "我", "You": "你", "We": "我们", "They": "他们", "My mother": "我妈妈", "His friend": "他的朋友",
    "The teacher": "老师", "The old man": "那个老人", "Her brother": "她的弟弟", "The children": "孩子们",
}  # fmt: skip
VERBS = {
    "bought": "买了", "saw": "看见了", "found": "找到了", "lost": "丢了", "wanted": "想要",
    "drew": "画了", "sold": "卖了", "forgot": "忘了",
}  # fmt: skip
OBJECTS = {
    "a book": "一本书", "a red car": "一辆红色的车", "two cats": "两只猫", "a new house": "一座新房子",
    "some water": "一些水", "an apple": "一个苹果", "three chairs": "三把椅子", "a small dog": "一只小狗",
    "the letter": "那封信", "a black hat": "一顶黑帽子",
}  # fmt: skip
TIMES = {"": "", " yesterday": "昨天", " this morning": "今天早上", " last week": "上个星期"}


def phrases() -> list[Pair]:
    """Every combination: who did what, and when; in Chinese the time stands after the subject."""
    return [
        Pair(f"{subject} {verb} {thing}{time}.", f"{SUBJECTS[subject]}{TIMES[time]}{VERBS[verb]}{OBJECTS[thing]}。")
        for subject, verb, thing, time in product(SUBJECTS, VERBS, OBJECTS, TIMES)
    ]
