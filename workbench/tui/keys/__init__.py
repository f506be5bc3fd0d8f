"""The rows of the table of keys, one module a screen; ``keymap`` puts them together."""
