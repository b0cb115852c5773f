"""Check every annotated shape and type while the tests run.

The hook has to be there before bagwise is first imported. pytest reads this file before it collects
anything, doctests included.
"""

import sys

from jaxtyping import install_import_hook

assert "bagwise" not in sys.modules, "bagwise was imported before its shapes could be checked"
install_import_hook("bagwise", "shapecheck.checked")
