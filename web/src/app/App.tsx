import { useEffect, useState } from "react";
import { exchangeCode } from "~/api/identity";
import { signIn, signOut, useSession } from "~/api/session";
import { currentAddress, formatAddress, navigate } from "~/state/address";
import { Frame } from "./Frame";
import { SignIn } from "./SignIn";

/** The code that `assay view` put into the fragment. It leaves the address and the history before it is used. */
function takeCode(): string | null {
  const { path, params } = currentAddress();
  const code = params.get("code");
  if (code === null) return null;
  params.delete("code");
  navigate(formatAddress(path, params), { replace: true });
  return code;
}

const code = takeCode();
let exchange: Promise<void> | null = null;

export function App() {
  const { key, reason } = useSession();
  const [waiting, setWaiting] = useState(code !== null);
  useEffect(() => {
    if (code === null) return;
    exchange ??= exchangeCode(code).then(signIn, (error: unknown) =>
      signOut(`${error instanceof Error ? error.message : String(error)} Start assay view again, or sign in with a key.`),
    );
    void exchange.then(() => setWaiting(false));
  }, []);
  if (waiting) return <div role="status" className="sr">Signing in</div>;
  return key === null ? <SignIn reason={reason} /> : <Frame />;
}
