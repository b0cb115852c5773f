"""Persistence: fitted models in one file, which can be loaded without trusting it.

    save(model, "age.bagwise")          a safetensors file with a JSON header; replaced whole or not
    load("age.bagwise")                 the model, with the same predictions bit by bit
    read_header("age.bagwise")          what the file says about itself

No pickle: a file holds numbers and names, and a closed list says which classes they may become. The
format is described in docs/format.md.
"""

from bagwise.estimators.saving.container import is_model
from bagwise.estimators.saving.saving import Header, load, open_saved, read_header, save, to_bytes

__all__ = ["Header", "is_model", "load", "open_saved", "read_header", "save", "to_bytes"]
