import { useState } from "react";

import { Button } from "~/ui/controls";
import { Dialog } from "~/ui/overlay";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

import { isPicture, outsideAddress } from "./shapes";

/** A picture of the value itself as a thumbnail. One that is elsewhere is not asked for: a button opens it in a new tab. */
export function Picture({ url, text = "" }: { url: string; text?: string }) {
  const [open, setOpen] = useState(false);
  if (isPicture(url)) {
    const name = plainText(text) || "Picture";
    return (
      <>
        <button type="button" className="picture" onClick={() => setOpen(true)}>
          <img src={url} alt={name} />
        </button>
        {open && (
          <Dialog title={name} onClose={() => setOpen(false)}>
            <img className="picture-whole" src={url} alt={name} />
          </Dialog>
        )}
      </>
    );
  }
  const address = outsideAddress(url);
  return (
    <span className="picture-outside">
      <span className="quiet">picture{text && " "}</span>
      <VisibleText text={text} />{" "}
      <code>
        <VisibleText text={url.slice(0, 300)} />
      </code>
      {address && (
        <Button size="small" onClick={() => window.open(address, "_blank", "noopener,noreferrer")}>
          Load in a new tab
        </Button>
      )}
    </span>
  );
}
