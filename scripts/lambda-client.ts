// What the tests and the soak ask of the Lambda API, signed as nobody checks on a local AWS.
export class InvokeCommand {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

export class LambdaClient {
  readonly #url: string;
  constructor(env: Readonly<Record<string, string>>) {
    this.#url = env.AWS_ENDPOINT_URL ?? '';
  }

  async send(command: InvokeCommand): Promise<void> {
    await (
      await this.#ask(`${command.name}/invocations`, { method: 'POST', body: '{}' })
    ).arrayBuffer();
  }

  /** The environment a function was deployed with. */
  async environment(name: string): Promise<Readonly<Record<string, string>>> {
    const found: unknown = await (
      await this.#ask(`${name}/configuration`, { method: 'GET' })
    ).json();
    const made: unknown = Reflect.get(
      Object(Reflect.get(Object(found), 'Environment')),
      'Variables',
    );
    return Object.fromEntries(
      Object.entries(Object(made)).map(([key, value]) => [key, String(value)]),
    );
  }

  async #ask(path: string, init: RequestInit): Promise<Response> {
    const answer = await fetch(`${this.#url}/2015-03-31/functions/${path}`, {
      ...init,
      headers: {
        authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/lambda/aws4_request',
      },
    });
    if (!answer.ok) throw new Error(`lambda ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  }
}

/** The variables by which a check finds the store, as the functions have them. */
export async function storeVariables(
  lambda: LambdaClient,
  functionName: string,
): Promise<Readonly<Record<string, string>>> {
  const all = Object.entries(await lambda.environment(functionName));
  return Object.fromEntries(
    all.filter(([name]) => name.startsWith('TURNSTONE_TABLE_') || name === 'TURNSTONE_KEY_ID'),
  );
}
