"""A small Flower app of somebody else: every node answers with its node config."""

from pathlib import Path

PYPROJECT = """
[project]
name = "hello"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "flr"
[tool.flwr.app.components]
serverapp = "hello.apps:server"
clientapp = "hello.apps:client"
[tool.flwr.app.config]
answers = ""
"""

APPS = """
import json
import time
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@client.query("hello")
def hello(message, context):
    settings = ConfigRecord({"settings": json.dumps(context.node_config)})
    return Message(RecordDict({"answer": settings}), reply_to=message)


@server.main()
def main(grid, context):
    messages = [Message(RecordDict(), node, "query.hello") for node in grid.get_node_ids()]
    waiting = set(grid.push_messages(messages))
    answers = []
    while waiting:
        for reply in grid.pull_messages(waiting):
            waiting.discard(reply.metadata.reply_to_message_id)
            answers.append(json.loads(reply.content["answer"]["settings"]))
        time.sleep(0.1)
    Path(context.run_config["answers"]).write_text(json.dumps(answers))
"""


def write(folder: Path) -> Path:
    """The app in a new folder; its server writes the answers to the file `answers`."""
    package = folder / "hello"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").touch()
    (package / "apps.py").write_text(APPS)
    return folder
