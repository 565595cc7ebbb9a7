/** Answers on their way to the server. Each belongs to the case that was shown; they are sent one after the other. */
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { getCase, type CaseDetail } from "~/api/cases";
import { labelCase, type ReviewCase } from "~/api/review";
import { describe } from "~/ui";

export interface Given {
  one: ReviewCase;
  passed: boolean;
  note: string;
  problem?: string; // why the server did not take it
}

/** A line of answers. The next one waits until the server has the one before, so that a second thought is the last. */
export class AnswerLine {
  private readonly given = new Map<string, Given>();
  private line: Promise<void> = Promise.resolve();

  /** `send` stores an answer; `changed` is called when an answer comes, fails or is stored. */
  constructor(
    private readonly send: (given: Given) => Promise<unknown>,
    private readonly changed: () => void,
  ) {}

  give(given: Given): void {
    this.given.set(given.one.caseId, given);
    this.line = this.line.then(() => this.store(given));
    this.changed();
  }

  /** The cases with my answers, as if the server had them. One that it did not take is not there. */
  over(cases: ReviewCase[]): ReviewCase[] {
    return cases.map((one) => {
      const given = this.given.get(one.caseId);
      return given === undefined || given.problem !== undefined ? one : { ...one, mine: given.passed };
    });
  }

  failures(): Given[] {
    return [...this.given.values()].filter((given) => given.problem !== undefined);
  }

  private async store(given: Given): Promise<void> {
    const { caseId } = given.one;
    try {
      await this.send(given);
      if (this.given.get(caseId) === given) this.given.delete(caseId);
    } catch (error) {
      if (this.given.get(caseId) === given) this.given.set(caseId, { ...given, problem: describe(error).text });
    }
    this.changed();
  }
}

/** The answers of a review. The line lasts as long as the judge is shown. */
export function useAnswers(run: string, judge: string): AnswerLine {
  const queries = useQueryClient();
  const [, setCount] = useState(0);
  const line = useRef<AnswerLine | null>(null);
  line.current ??= new AnswerLine(
    async ({ one, passed, note }) => {
      const position = one.position ?? 0;
      const queryKey = ["run", run, "case", position];
      // not the query of the screen: it is cancelled when the screen shows the next case
      const detail = queries.getQueryData<CaseDetail>(queryKey) ?? (await getCase(run, position));
      await labelCase(detail, judge, passed, note);
      await queries.invalidateQueries({ queryKey: ["run", run, "review"] });
      void queries.invalidateQueries({ queryKey });
    },
    () => setCount((count) => count + 1),
  );
  return line.current;
}
