"""Fuzzing: generated cases, numbered and repeatable, over everything that a user can call.

``make fuzz`` runs them all; ``python -m fuzz fit 17`` (tests on PYTHONPATH) runs case 17 of the
kind ``fit`` again and says what was drawn. A kind is a function of a ``Trial``, from which it draws
and by which it calls bagwise; what must never happen is written down in ``trial``, once.
"""
