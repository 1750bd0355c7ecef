// Models of Bedrock that a deployment's agents may ask, as context `bedrockModels` names them.

/** A model by its id in this region, or by its ARN. */
export type BedrockModel = { readonly id: string } | { readonly arn: string };

const arnForm =
  /^arn:aws[a-z-]*:bedrock:[a-z0-9-]+:\d{0,12}:(?:foundation-model|(?:application-)?inference-profile|provisioned-model|custom-model-deployment|imported-model)\/[A-Za-z0-9.:_/-]+$/;
const idForm = /^[a-z0-9-]+\.[A-Za-z0-9.:_-]+$/;
const profileForm = /^(?:us|us-gov|eu|apac|au|jp|ca|global)\./;

/** Ids and ARNs separated by commas; throws on anything else, a wildcard among it. */
export function bedrockModels(text: string): readonly BedrockModel[] {
  return text
    .split(',')
    .filter((entry) => entry !== '')
    .map((entry) => {
      if (arnForm.test(entry)) return { arn: entry };
      if (profileForm.test(entry)) {
        throw refused(entry, "an inference profile's ARN and those of the models behind it");
      }
      if (!idForm.test(entry)) throw refused(entry, 'the id or the ARN of a model');
      return { id: entry };
    });
}

function refused(entry: string, expected: string): Error {
  return new Error(`context bedrockModels: expected ${expected}, got "${entry}"`);
}
