"""What an editor is told of a configuration while it is written: `nexusform lsp`."""
