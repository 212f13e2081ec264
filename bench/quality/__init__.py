"""How well Tulving finds, measured through the library on conversations and on facts that change."""
