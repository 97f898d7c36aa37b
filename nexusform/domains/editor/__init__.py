"""Language server for editors: `nexusform lsp`."""
