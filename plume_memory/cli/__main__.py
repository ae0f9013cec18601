"""`python -m plume_memory.cli`, which `accelerate launch -m` needs."""

from plume_memory.cli.main import run

if __name__ == "__main__":
    run()
