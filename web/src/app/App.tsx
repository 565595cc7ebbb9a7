import { useEffect, useState } from "react";
import { exchangeCode } from "~/api/identity";
import { signIn, signOut, useSession } from "~/api/session";
import { takeArrival } from "~/api/signIn";
import { Frame } from "./Frame";
import { SignIn } from "./SignIn";

const arrival = takeArrival();
let exchange: Promise<void> | null = null;

export function App() {
  const { key, reason } = useSession();
  const [waiting, setWaiting] = useState(arrival.code !== null);
  useEffect(() => {
    if (arrival.code === null) return;
    exchange ??= exchangeCode(arrival.code).then(signIn, (error: unknown) =>
      signOut(`${error instanceof Error ? error.message : String(error)} Start assay view again, or sign in with a key.`),
    );
    void exchange.then(() => setWaiting(false));
  }, []);
  if (waiting) return <div role="status" className="sr">Signing in</div>;
  return key === null ? <SignIn reason={reason || arrival.problem} tenants={arrival.tenants} /> : <Frame />;
}
