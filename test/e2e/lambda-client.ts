// Invoking a function by the Lambda API, signed as nobody checks on a local AWS.
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
    const answer = await fetch(`${this.#url}/2015-03-31/functions/${command.name}/invocations`, {
      method: 'POST',
      headers: {
        authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/lambda/aws4_request',
      },
      body: '{}',
    });
    if (!answer.ok)
      throw new Error(`invoke ${command.name}: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
}
