"""How options are spelt on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from pdssm.errors import PDSSMError

registry = ConstructorRegistry()


@registry.primitive_rule
def named_values(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Options of a task or a mixer: ``NAME=VALUE ...``, the value as in JSON, or plain text."""
    if info.type_origin is not Mapping and info.type != Mapping[str, Any]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[NAME=VALUE ...]",
        instance_from_str=lambda texts: dict(named_value(text) for text in texts),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda values: [
            f"{n}={v if isinstance(v, str) else json.dumps(v)}" for n, v in values.items()
        ],
    )


def named_value(text: str) -> tuple[str, Any]:
    """``init=paper``, ``dictionary_size=32``, ``skip=false``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise PDSSMError(f"option {text!r} has no '='; expected NAME=VALUE")
    try:
        return name.replace("-", "_"), json.loads(value)
    except ValueError:
        return name.replace("-", "_"), value
