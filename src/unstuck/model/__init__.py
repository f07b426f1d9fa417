"""The nouns of unstuck: frozen structs without I/O and without a clock."""
