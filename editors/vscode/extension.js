// Starts `nexusform lsp` and lets the editor talk to it.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const [command, ...args] = workspace.getConfiguration("nexusform").get("command");
  const server = { command, args };
  client = new LanguageClient("nexusform", "nexusform", server, {
    documentSelector: [
      { scheme: "file", language: "nexusform" },
      { scheme: "file", pattern: "**/*.nf.json" },
    ],
  });
  await client.start();
};

exports.deactivate = () => client && client.stop();
