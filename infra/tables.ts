// The four tables of page 09: on demand, no index, no stream, each with its own word on backups.
//   T12  the key table has no point-in-time recovery, and its policy refuses backup, export and restore.
import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { AnyPrincipal, Effect, PolicyDocument, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import type { Profile } from './profile.ts';

export class Tables extends Construct {
  readonly data: TableV2;
  readonly work: TableV2;
  readonly keys: TableV2;
  readonly ledger: TableV2;

  constructor(scope: Construct, id: string, profile: Profile) {
    super(scope, id);
    this.data = this.#table('Data', profile, true);
    this.work = this.#table('Work', profile, true);
    this.keys = this.#table('Keys', profile, false);
    this.ledger = this.#table('Ledger', profile, true);
  }

  #table(name: string, profile: Profile, recovery: boolean): TableV2 {
    return new TableV2(this, name, {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sk', type: AttributeType.STRING },
      billing: Billing.onDemand(),
      encryption: TableEncryptionV2.awsManagedKey(),
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: recovery },
      deletionProtection: !profile.disposable,
      removalPolicy: profile.disposable ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
      ...(recovery ? {} : { resourcePolicy: noCopies() }),
    });
  }
}

/** Nobody may copy the key table: a copy would bring erased keys back. */
function noCopies(): PolicyDocument {
  return new PolicyDocument({
    statements: [
      new PolicyStatement({
        sid: 'NoCopies',
        effect: Effect.DENY,
        principals: [new AnyPrincipal()],
        actions: [
          'dynamodb:CreateBackup',
          'dynamodb:ExportTableToPointInTime',
          'dynamodb:RestoreTableToPointInTime',
          'dynamodb:UpdateContinuousBackups',
          'dynamodb:EnableKinesisStreamingDestination',
        ],
        resources: ['*'],
      }),
    ],
  });
}
