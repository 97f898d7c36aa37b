"""Figures and steps of a JSON answer of `simulate repack`."""

from __future__ import annotations

from typing import Any

from tests.answer_rows import read_rows


def read_repack_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of an answer, and its windows with steps, pods and commands.

    A step has the names of the machines in `from` and `to`.
    """
    sections: dict[str, list[dict[str, Any]]] = {}
    for section in answer["sections"]:
        sections.setdefault(section["name"], []).append(section)
    [result] = read_rows(sections["result"][0])
    steps = []
    pods = []
    for section in sections.get("window", ()):
        window = int(section["title"].split()[1])
        for row in read_rows(section):
            hits, samples = map(int, row["hits"].split(" of "))
            steps.append({**row, "window": window, "hits": hits, "samples": samples})
    for section in sections.get("pods", ()):
        window = int(section["title"].split()[-1])
        pods += [{**row, "window": window} for row in read_rows(section)]
    for step in steps:
        for key in ("from", "to"):
            step[key] = step[key].split(" / ")[0]
    blocking = [row for section in sections.get("blocking", ()) for row in read_rows(section)]
    return {
        **answer,
        **result,
        "facts": answer["facts"],
        "steps": steps,
        "pods": pods,
        "commands": [section["commands"] for section in sections.get("window", ())],
        "blocking": {row["loosened"]: row["re_creations"] for row in blocking},
    }
