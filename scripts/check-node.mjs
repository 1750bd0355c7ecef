// Says in one line what to do when the Node that runs is too old. Must itself run on any Node.
const [major] = process.versions.node.split('.').map(Number);
if (major < 24) {
  process.stderr.write(
    `turnstone: needs Node 24, got ${process.versions.node}; run it through npm (npm ci brings Node 24). ` +
      'If install scripts are switched off: npm rebuild node --allow-scripts=node\n',
  );
  process.exit(1);
}
