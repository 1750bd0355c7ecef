// Variables that a deployment hands to the user's own agents, as context `agentsEnv` writes them.

/** `NAME=value` pairs separated by commas; throws on a bad name, on one of ours or AWS's, and on a name used twice. */
export function ownEnvironment(text: string): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {};
  for (const pair of text.split(',').filter((entry) => entry !== '')) {
    const at = pair.indexOf('=');
    const name = at < 0 ? pair : pair.slice(0, at);
    if (at < 0 || !/^[A-Za-z][A-Za-z0-9_]*$/.test(name))
      throw new Error(`context agentsEnv: expected NAME=value pairs with commas, got "${pair}"`);
    if (/^(TURNSTONE|AWS|LAMBDA|NODE)_/.test(name))
      throw new Error(`context agentsEnv: ${name}: expected a name of your own agents`);
    if (name in variables) throw new Error(`context agentsEnv: ${name} is there twice`);
    variables[name] = pair.slice(at + 1);
  }
  return variables;
}
