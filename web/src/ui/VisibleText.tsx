import { memo } from "react";

import { piecesOf } from "./visible";

/** Foreign text as text. Characters that cannot be seen are small labels. */
export const VisibleText = memo(function VisibleText({ text }: { text: string }) {
  return piecesOf(text).map((piece, at) =>
    piece.kind === "text" ? (
      piece.text
    ) : (
      <span key={at} className="hidden-mark" title={piece.count > 1 ? `${piece.name}, ${piece.count} times` : piece.name}>
        {piece.count > 1 ? `${piece.label}×${piece.count}` : piece.label}
      </span>
    ),
  );
});
