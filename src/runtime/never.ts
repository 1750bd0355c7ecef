/** A promise that never settles: what a stopped pass leaves its code with. */
export function never<T>(): Promise<T> {
  return new Promise<T>(() => undefined);
}
