"""The tool loop at scale: long histories over HTTP, and many conversations at once."""
