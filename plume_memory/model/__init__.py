"""The base model: where it comes from, how adapters attach to it, how it decodes."""
