import { useEffect, useRef, type ReactNode } from "react";

import { currentAddress, formatAddress, useAddress } from "~/state/address";
import { Icon } from "~/ui/icons";

/** A part of a case with an address of its own. A link to it opens the case at this part. */
export function Item({ name, title, actions, children, className = "" }: { name: string; title: ReactNode; actions?: ReactNode; children: ReactNode; className?: string }) {
  const { params } = useAddress();
  const element = useRef<HTMLElement>(null);
  const target = params.get("item") === name;
  useEffect(() => {
    if (target) element.current?.scrollIntoView({ block: "start" });
  }, [target]);
  return (
    <section ref={element} className={`item ${target ? "item-target" : ""} ${className}`} data-item={name}>
      <div className="item-head">
        <h3>{title}</h3>
        <ItemLink name={name} />
        <span className="grow" />
        {actions}
      </div>
      {children}
    </section>
  );
}

export function ItemLink({ name }: { name: string }) {
  return (
    <a className="item-link" href={itemAddress(name)} aria-label="Link to this part" title="Link to this part">
      <Icon name="link" size={13} />
    </a>
  );
}

function itemAddress(name: string): string {
  const { path, params } = currentAddress();
  params.set("item", name);
  return formatAddress(path, params);
}
