"""The tool loop at scale: long histories over HTTP, and many conversations in one process. `python -m benches.scale.run`."""
