"""`unstuck completion SHELL`: print the script that completes our commands."""

import click
from click.shell_completion import get_completion_class

from unstuck.errors import InternalError
from unstuck.show.cli.main import COMPLETE, cli

INSTALL = {
    "bash": "echo 'eval \"$(unstuck completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(unstuck completion zsh)\"' >> ~/.zshrc",
    "fish": "unstuck completion fish > ~/.config/fish/completions/unstuck.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(INSTALL)))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    The first line of the output says how to install it.
    """
    writer = get_completion_class(shell)
    if writer is None:
        raise InternalError(f"click cannot write a completion script for {shell}")
    script = writer(cli, {}, "unstuck", COMPLETE).source()
    click.echo(f"# To install: {INSTALL[shell]}")
    click.echo(script)
