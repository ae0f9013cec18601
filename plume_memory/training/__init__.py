"""Train hypernetworks: data, objectives, the loop, its checkpoints. `plume train` is the way in."""
