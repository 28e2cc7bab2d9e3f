"""What a PromQL expression speaks of. Knows as much of the language as our queries use."""

import re
from typing import NamedTuple

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_:][\w:]*|\d[\w.]*|=~|!~|!=|[^\s\w]')
NAME = re.compile(r"[A-Za-z_:][\w:]*$")
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
OTHER_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


class Expression(NamedTuple):
    metrics: dict  # name -> labels its selectors name
    grouping: set  # labels of by (), without (), on (), ignoring () and group_left ()


def with_values(query):
    """A dashboard's query with values in place of Grafana's variables."""
    return re.sub(r"\$(\w+)", ".*", query.replace("$__rate_interval", "5m"))


def until(closing, tokens, at):
    """Names between the bracket at `at` and the one that closes it, and where it closes."""
    end = tokens.index(closing, at)
    return {token for token in tokens[at + 1 : end] if NAME.match(token)}, end


def parse(query):
    tokens = TOKEN.findall(with_values(query))
    metrics, grouping = {}, set()
    at = 0
    while at < len(tokens):
        token, after = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in GROUPING:
            if after == "(":
                labels, at = until(")", tokens, at + 1)
                grouping |= labels
        elif token == "[":
            _, at = until("]", tokens, at)
        elif NAME.match(token) and token not in OTHER_WORDS and after != "(" and after not in GROUPING:
            labels = metrics.setdefault(token, set())
            if after == "{":
                more, at = until("}", tokens, at + 1)
                labels |= more
        at += 1
    return Expression(metrics, grouping)
