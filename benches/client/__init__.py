"""The model client compared with what else one would pick, over HTTP on loopback: `python -m benches.client`."""
