"""Persistence: fitted models and running sums, in files that can be loaded without trust.

    save(model, "age.bagwise")          a safetensors file with a JSON header; replaced whole or not
    load("age.bagwise")                 the model, with the same predictions bit by bit
    read_header("age.bagwise")          what the file says about itself

No pickle: a file holds numbers and names, and a closed list says which classes they may become. The
format is described in docs/format.md.
"""

from bagwise.estimators.saving.container import is_model, is_sums
from bagwise.estimators.saving.saving import (
    Header,
    load,
    open_saved,
    open_sums,
    read_header,
    save,
    to_bytes,
)

__all__ = ["Header", "is_model", "is_sums", "load", "open_saved", "open_sums", "read_header"]
__all__ += ["save", "to_bytes"]
