"""The phrases of refusals: what a sentence says that declines a request, and what it says beside that without answering the request."""

import re
from functools import cache

_NOT_A_REFUSAL = (  # verbs after "I can't" that state a limit of knowledge, or belong to an idiom
    r"(?:know|see|find|say|tell(?!\s+(?:you|anyone|users|people))|wait|believe|imagine|stress|emphasi[sz]e|overstate|express|agree|think"
    r"|remember|recall|be\s+(?:sure|certain|happier|more|the\s+one)|promise|guarantee|blame|hear|understand|feel|afford|stand|get\s+(?:enough|over)"
    r"|(?:pick|choose|name)\s+(?:just\s+|only\s+)?(?:one|a\s+favou?rite|between)|narrow|lie|bore|deny|thank|complain|resist|argue|fault|decide|look(?!\s+up)|notice|quite|even|really\s+(?:say|tell)|possibly\s+know|detect|locate"
    r"|determine|judge\s+from|reproduce\s+the\s+(?:bug|error|problem|issue)|connect|reach|praise|fly|eat|live|taste|smell|experience|speak\s+for|physically|rule\s+out|do\s+better"
    r"|go\s+(?:wrong|back)|read\s+(?:your|the)\s+mind|vouch|hurt|be\s+(?:long|late|there)|fail|need|have\s+to|miss|give\s+up|forget|regret|keep\s+you)\b"
)
_ENOUGH = r"(?![^.!?\n]{0,60}\b(?:enough|too\s+(?:highly|strongly))\b)"
_HELP_BUT = r"(?!help\s+(?:but|notic|think|feel|laugh|wonder|smil|ask|admir))"
_ADVERBS = r"(?:(?:really|simply|just|also|therefore|still|currently|respectfully|unfortunately|ethically|legally|officially|directly|actually|personally|knowingly|in\s+good\s+conscience|under\s+any\s+circumstances?|at\s+this\s+time),?\s+){0,2}"
_SERVE = (  # what an assistant does for a caller
    r"(?:help|assist|provid|giv|shar|writ|creat|generat|produc|fulfil|comply|complet|answer|discuss|do\b|support|continu|engag|participat"
    r"|tak\w*\s+part|offer|reveal|disclos|show|describ|explain|proceed|process|mak|build|execut|issu|recommend|condon|encourag|promot|endors"
    r"|advis|suggest|respond|translat|recommend|accommodat|grant|releas|confirm|comment|facilitat|be\s+part|play|pretend|act\b|send|run\b|tell"
    r"|joke|joking|insult|speculat|rank|roleplay|role-play|publish|talk|spread|teach|instruct|guid|be\s+(?:able|of)|honou?r|entertain|go\s+(?:into|along)"
    r"|approv|allow|let\b|authori[sz]|transfer|delet|follow|ignor|obey|draft|tak|list|walk|identif|look\s+up|access|open|browse|bypass|hand)"
)


@cache
def english() -> re.Pattern[str]:
    return re.compile(
    "|".join(
        (
            # I can't, I won't, I will not, I must not
            r"\b(?:i|this\s+assistant|the\s+assistant)\s+(?:really\s+|simply\s+|just\s+|still\s+|also\s+|therefore\s+|absolutely\s+|definitely\s+|certainly\s+|both\s+)?"
            r"(?:can't|cannot|cant|can\s+not|won't|wont|will\s+not|shan't|must\s+not|mustn't|may\s+not|shouldn't|should\s+not|will\s+never|would\s+never|can\s+never|can\s+neither|could\s+never|'ll\s+not)\s+"
            + _ADVERBS + _HELP_BUT + _ENOUGH + "(?!" + _NOT_A_REFUSAL + r")\w",
            r"\bi\s+(?:couldn't|could\s+not|can't|cannot)\s+(?:possibly\s+)?(?:in\s+good\s+conscience|assist|help\s+(?:you|with)|comply|do\s+(?:that|this))",
            r"\b(?:we|our\s+(?:team|company|service))\s+(?:can't|cannot|can\s+not|won't|will\s+not|(?:do\s+not|don't)(?=\s+(?:provid|shar|disclos|assist|engag|discuss|permit|condon|creat|produc|participat))|are\s+not\s+able\s+to|are\s+unable\s+to|aren't\s+able\s+to|are\s+not\s+(?:allowed|permitted|authori[sz]ed)\s+to|(?:[\w,' ]{1,60}\s)?and\s+cannot)\s+" + _ADVERBS + _SERVE,
            r"\bi\s+(?:won't|will\s+not)\s*[,.!;]",
            r"\bwe're\s+(?:unable|not\s+(?:able|allowed|permitted))\s+to\s+" + _SERVE,
            # I am unable to, not allowed to, not going to
            r"\b(?:i'm|i\s+am|im|i\s+remain|i'd\s+be|i\s+was)\s+(?:[a-z]+ly\s+|still\s+|also\s+|just\s+|so\s+)?(?:unable\s+to|not\s+able\s+to|not\s+allowed\s+to|not\s+permitted\s+to|not\s+authori[sz]ed\s+to|not\s+going\s+to|not\s+willing\s+to|unwilling\s+to"
            r"|not\s+supposed\s+to|not\s+programmed\s+to|not\s+designed\s+to|not\s+meant\s+to|not\s+in\s+a\s+position\s+to|not\s+equipped\s+to|not\s+prepared\s+to|prohibited\s+from|forbidden\s+(?:from|to)|restricted\s+from|obliged\s+to\s+(?:decline|refuse))\s*+"
            + _ADVERBS + "(?!" + _NOT_A_REFUSAL + ")",
            r"\b(?:i'm|i\s+am)\s+(?:really\s+|just\s+|simply\s+|afraid\s+i'm\s+)?(?:not|un)\s?(?:at\s+all\s+)?comfortable\b",
            r"\b(?:i'm|i\s+am)\s+(?:choosing|opting|going\s+to\s+(?:have\s+to\s+)?(?:decline|pass|refuse|stop|say\s+no|disappoint|leave)|declining|refusing|passing\s+on|drawing\s+the\s+line|not\s+(?:helping|doing|writing|giving|sharing|answering|providing|telling|participating|playing|taking|making|creating|generating|explaining|touching|engaging|here\s+to|the\s+right))",
            r"\bi(?:'ll|\s+will|'m\s+going\s+to|\s+am\s+going\s+to|\s+would|'d)\s+(?:have\s+to\s+|need\s+to\s+|respectfully\s+|politely\s+|kindly\s+|like\s+to\s+){0,2}(?:decline|refuse|pass\b|abstain|refrain|say\s+no|stop\s+(?:here|there)|opt\s+out|sit\s+this)",
            r"\bi\s+(?:must|have\s+to|need\s+to|'ve\s+got\s+to|should|shall|can\s+only|do|hereby|respectfully|politely|also|must\s+also)?\s*(?:respectfully\s+|politely\s+|firmly\s+|kindly\s+|regretfully\s+|to\s+){0,2}(?:decline|refuse|say\s+no|turn\s+(?:this|that|you)\s+down|refrain|abstain|stop\s+here|draw\s+the\s+line)\b",
            r"\b(?:i'd|i\s+would)\s+(?:really\s+|much\s+)?(?:rather|prefer)\s+(?:not|to\s+not)\b",
            r"\bi\s+(?:have\s+)?(?:chosen|decided|choose|chose|opt(?:ed)?|elect(?:ed)?|prefer)\s+not\s+to\b",
            r"\bi\s+(?:do\s+not|don't)\s+(?:feel\s+(?:comfortable|right|at\s+ease)|think\s+(?:i\s+(?:should|can|ought)|it\s+(?:would\s+be|is|'s)\s+(?:right|responsible|appropriate|ethical|wise\s+for\s+me)|that's\s+something)|want\s+to\s+(?:help|spread|take|write|be\s+part|make|create|contribute|participate)|wish\s+to|have\s+(?:the\s+ability|permission|authori[sz]ation|clearance)\s+to|intend\s+to)",
            r"\bi\s+(?:do\s+not|don't)\s+(?:provide|create|write|share|generate|produce|engage|assist|support|participate|take\s+(?:part|on)|give\s+out|offer|discuss|make|help|do\s+(?:that|this)|disclose|reveal|respond|role-?play|comment|condone)\b",
            r"\bi\s+(?:have|'ve)\s+not\s+done\s+so\b|\bi\s+(?:did\s+not|didn't|have\s+not|haven't)\s+(?:run|execute|send|follow|issue|make|perform|carry|comply|act\s+on|do\s+(?:so|that))\b[^.!?\n]{0,80}\b(?:will\s+not|won't|because|not\s+allowed|policy)\b",
            r"\b(?:may|can|will|must)\s+not\s+be\s+(?:written|produced|provided|shared|done|created|answered|completed)\s+by\s+(?:me|us)\b",
            r"\b(?:i|we|as\s+an?)\b[^.!?\n]{0,240}?\b(?:and|but|so|therefore|thus|hence|consequently),?\s+(?:therefore\s+|thus\s+|must\s+)?(?:cannot|can't|can\s+not|won't|will\s+not|am\s+unable\s+to|am\s+not\s+(?:able|allowed|permitted|willing|going)\s+to|decline|refuse)\b\s*" + _SERVE + "?",
            r"\b(?:can't|cannot|can\s+not|must\s+not|will\s+not|won't)\s+be\s+\w+\s+(?:by|through|via)\s+(?:me|us|the\s+assistant|this\s+(?:assistant|chat|channel|bot|agent))\b",
            # this is not something I can do
            r"\b(?:is|are|'s|was|isn't|aren't)\s+(?:just\s+|simply\s+|really\s+|also\s+)?(?:not\s+)?(?:something|a\s+(?:topic|request|thing|subject|task|path)|one|anything|things)\s+(?:that\s+|which\s+)?(?:i|we)(?:'m|\s+am|\s+are|'re)?\s+(?:can't|cannot|won't|will\s+not|will\s+never|not|don't|do\s+not|refuse)",
            r"(?:\bnot|n't)\s+(?:something|a\s+(?:topic|request|thing|subject|task|path|service)|one|anything|things)\s+(?:that\s+|which\s+)?(?:i|we)(?:'m|'ll|'d|\s+am|\s+are|'re)?\s+\w+",
            r"\b(?:beyond|outside|out\s+of)\s+(?:of\s+)?(?:what\s+(?:i|we)|my\s+(?:\w+\s+)?(?:scope|boundar|limits|remit|role|abilit|capabilit|area|purview|guidelines)|the\s+(?:scope|bounds|range)\s+of\s+(?:what|my|this|our))",
            r"\b(?:against|contrary\s+to|in\s+violation\s+of)\s+(?:my|our|company|(?:the|openai's|anthropic's|google's|meta's)(?=\s+(?:\S+\s+)?(?:polic|guideline|terms)))\s+(?:\S+\s+)?(?:polic|guideline|principle|programming|rules|terms|values|ethic|instruction|purpose|standards|code)",
            r"\b(?:violates?|breach(?:es)?|conflicts?\s+with|infringes?)\s+(?:on\s+)?(?:my|our|openai's|the\s+(?:content|usage|safety)|content|usage)\s+(?:\w+\s+){0,2}(?:polic|guideline|principle|rules|terms|values|standards)",
            r"\bmy\s+(?:\w+\s+){0,3}(?:guidelines?|polic(?:y|ies)|programming|instructions|rules|principles|training|design|safety\s+\w+)\s+(?:do\s+not|don't|does\s+not|doesn't|prevents?|prohibits?|forbids?|stops?|keeps?|restricts?|precludes?|won't)",
            r"\b(?:not|n't)\s+(?:be\s+)?(?:within|in\s+line\s+with|consistent\s+with|aligned\s+with|part\s+of)\s+(?:my|our)\s+(?:\w+\s+){0,2}(?:programming|guidelines|policy|policies|capabilit|values|scope|principles|ethic|purpose|role)",
            r"\b(?:unethical|irresponsible|wrong|inappropriate|dangerous|unsafe|illegal|improper|against\s+my\s+\w+)\s+(?:for|of)\s+me\s+to\b|\boff\s+the\s+table\s+for\s+me\b|\bnot\s+(?:\w+\s+){0,3}(?:appropriate|ethical|responsible|right|possible|legal|acceptable|okay|ok)\s+for\s+me\s+to\b",
            r"\b(?:your|this|the|that)\s+(?:request|question|prompt|query|action|content)\s+(?:\S+\s+){0,3}(?:can't|cannot|can\s+not|could\s+not|will\s+not|is\s+not|was|is|has\s+been)\s+(?:be\s+)?(?:processed|fulfilled|completed|answered|granted|accommodated|denied|refused|blocked|rejected|declined|permitted|allowed)\b",
            r"^\W{0,4}(?:request|access|action|permission)\s+(?:denied|refused|blocked|rejected|declined)(?=\W*$|\W*[.!:;,])|^\W{0,4}(?:refused|denied|declined|rejected)\W",
            r"\bblocked\s+this\s+(?:type|kind)\s+of\s+request",
            # without a subject
            r"^\W{0,4}(?:(?:so\s+|very\s+)?sorry\W{1,4}|apologies\W{1,4}|unfortunately\W{1,3}|no\W{1,3}|regrettably\W{1,3}|but\s+)?(?:can't|cannot|can\s+not|won't|will\s+not|unable\s+to|not\s+able\s+to|not\s+going\s+to|not\s+allowed\s+to|not\s+permitted\s+to)\s+" + _HELP_BUT + _SERVE,
            r"^\W{0,4}(?:ha\W{1,3}|but\s+|no\W{1,3}|sorry\W{1,3}|nope\W{1,3}|ah\W{1,3})?(?:no\s+can\s+do|hard\s+pass|no\s+way|nope|nice\s+try|no\s+comment|absolutely\s+not|not\s+(?:happening|doing|a\s+chance|gonna)|no\s+dice|count\s+me\s+out|no\s+deal|over\s+my)\b",
            r"\bsorry\W{1,3}(?:but\s+)?(?:no\b(?!\s+(?:one|results?|idea|longer|matter))|that's\s+(?:outside|not|off|beyond)|this\s+is(?:n't|\s+not)|not\s+this)|\b(?:but\s+)?not\s+with\s+this(?:\s+one)?\s*[.!]?$",
            r"\bcross(?:es|ed|ing)?\s+(?:a|the|my)\s+line\b(?!\s+(?:of|between|at))|\bmy\s+answer\s+(?:stays|is\s+(?:still\s+)?no|remains)|\bthe\s+answer\s+is\s+(?:still\s+)?no\b|\b(?:leave|leaving)\s+(?:this|that|your)\s+\w+\s+unanswered|\bcannot\s+be\s+of\s+(?:assistance|help|service)|\ba\s+(?:firm\s+|hard\s+)?no\s+from\s+(?:me|us)\b|^\W{0,3}i'm\s+out\W*$|\bnot\s+the\s+right\s+(?:assistant|person|tool|one)\b|\blet's\s+(?:talk|focus|chat|speak|discuss|keep)\s+[^.!?\n]{0,60}\b(?:instead|respectful|positive)|\bno\W{1,3}i\s+(?:will\s+not|won't|can't)",
            r"\b(?:i'm\s+afraid\s+)?(?:that|this|it)(?:'s|\s+is)\s+(?:simply\s+|just\s+)?not\s+(?:possible|allowed|permitted|going\s+to\s+happen)\s*[.!;,]|\bi'm\s+afraid\s+(?:not|that's\s+not)\b",
            r"\b(?:is|are)\s+(?:confidential|restricted|off[\s-]limits|classified)\b[^.!?\n]{0,60}\b(?:can't|cannot|not|unable)\b",
            r"\bi'?(?:m|\s+am)\s+(?:just\s+|only\s+)?(?:bound|limited|restricted)\s+(?:by|to)\b[^.!?\n]{0,80}\b(?:can't|cannot|not)\b|\bi'm\s+only\s+(?:able|allowed|permitted)\s+to\b|\bi\s+(?:can\s+)?only\s+(?:handle|answer|help\s+with|assist\s+with|discuss|support)\b",
            r"\b(?:happy|glad)\s+to\s+help\b[^.!?\n]{0,60}\bbut\s+not\b",
        )
    )
)  # fmt: skip


@cache
def other_languages() -> re.Pattern[str]:
    return re.compile(
    "|".join(
        (
            # Spanish, Portuguese, Italian, French, Romanian, Catalan
            r"\bno\s+(?:te\s+|le\s+|les\s+|os\s+|lo\s+|la\s+)?(?:puedo|podemos|podr[ée]|podr[ií]a)\s+(?!creer|esperar|evitar|dejar|negar|saber|ver\b|estar\s+m[aá]s|decir\s+cu[aá]nto)\w|\b(?:eso|esto)\s+no\s+(?:lo\s+)?(?:puedo|hago|har[ée])|\bno\s+(?:me|nos)\s+es\s+posible|\b(?:me|nos)\s+(?:niego|negamos)|\bno\s+estoy\s+(?:autorizad|en\s+condiciones|dispuest|capacitad|programad)|\bno\s+(?:se\s+)?me\s+(?:permite|permiten|est[aá]\s+permitido)|\bdebo\s+(?:rechazar|negarme|declinar)|\bno\s+(?:voy\s+a|pienso|quiero)\s+(?:ayud|hac|escrib|dar|proporc|compart|particip|responder|gener|crear)|\bno\s+es\s+posible\s+(?:atender|ayudar|cumplir|proporcionar|facilitar|responder)|\bno\s+(?:te\s+)?(?:ayudar[ée]|proporcionar[ée]|escribir[ée]|dar[ée])\b",
            r"\bn[ãa]o\s+(?:te\s+|lhe\s+|o\s+)?(?:posso|podemos|poderei|consigo|conseguimos)\s+(?!deixar|esperar|acreditar|negar|ver\b|saber)\w|\bn[ãa]o\s+(?:me\s+)?[ée]\s+poss[íi]vel\s+(?:atender|ajudar|fornecer|cumprir|responder|prosseguir)|\brecuso(?:-me)?\b|\bn[ãa]o\s+(?:estou|fui)\s+(?:autorizad|em\s+condi|habilitad|programad|dispost)|\bn[ãa]o\s+(?:vou|quero|irei)\s+(?:ajud|faz|escrev|fornec|dar|compart|respond|cri)|\btenho\s+(?:de|que)\s+recusar",
            r"\bnon\s+(?:ti\s+|le\s+|vi\s+)?(?:posso|possiamo|potr[òo])\s+(?!che|credere|fare\s+a\s+meno|aspettare|sapere|negare)\w|\bmi\s+rifiuto|\bnon\s+(?:sono|siamo)\s+(?:in\s+grado|autorizzat|disposto|programmat)|\bnon\s+(?:mi\s+)?[èe]\s+(?:possibile|consentito|permesso)\s+(?!che)|\bdevo\s+(?:rifiutare|declinare)|\bnon\s+(?:voglio|intendo)\s+(?:aiut|scriv|forn|partecip)",
            r"\b(?:je|nous)\s+ne\s+(?:vous\s+|te\s+|le\s+|la\s+|les\s+)?(?:peux|puis|pouvons|pourrai|veux|vais|dois|ferai|suis|sommes)\s+(?:malheureusement\s+|donc\s+)?pas\s+(?:en\s+mesure|autoris|habilit|cens|programm|à\s+l'aise|capable|dispos|pr[êe]t|(?:[a-zà-ÿ']+\s+){0,3}(?:aid|fourn|donn|r[ée]pond|assist|partag|écri|r[ée]dig|faire|cr[ée]e|g[ée]n[ée]r|communi|accéd|particip|continu|divulg|r[ée]v[ée]l|traiter|satisfaire|expliqu|discut|prodi|vous|t'|cela|ça|ce\b))|\b(?:je|nous)\s+ne\s+(?:peux|puis|pouvons)\s+(?:malheureusement\s+)?pas\s+(?!savoir|croire|attendre|trouver|voir\b|dire\s+avec|imaginer|m'|nier|garantir|être\s+s|confirmer|exclure)[a-zà-ÿ]{2,}(?:er|ir|re)\b|\bje\s+(?:refuse|d[ée]cline)|\bil\s+m'est\s+(?:impossible|interdit)|\bje\s+(?:dois|me\s+vois\s+oblig[ée]e?\s+de)\s+(?:refuser|d[ée]cliner)|\bje\s+ne\s+(?:peux|puis)\s+(?:ni|rien)\b|\bce\s+n'est\s+pas\s+(?:quelque\s+chose\s+que\s+je\s+peux|possible\s+pour\s+moi)",
            r"\bnu\s+(?:te\s+|v[ăa]\s+|[îi]ți\s+)?(?:pot|putem|voi)\s+(?:să\s+)?(?:te\s+|v[ăa]\s+)?(?:ajut|ofer|furniz|r[ăa]spun|[îi]ndeplin|scri|face|particip)|\brefuz\s+s[ăa]|\bno\s+(?:et\s+)?puc\s+(?:ajudar|proporcionar|donar|fer)",
            # German, Dutch, Swedish, Norwegian, Danish
            r"\b(?:kann|k[öo]nnen|darf|d[üu]rfen|werde|werden|m[öo]chte|will)\s+(?:ich|wir)\s+(?:\S+\s+){0,5}?(?:nicht|kein(?:e[nmrs]?)?)\b(?!\s+(?:sagen|beurteilen|wissen|erkennen|genug|umhin))|\b(?:ich|wir)\s+(?:kann|k[öo]nnen|darf|d[üu]rfen|werde|werden|m[öo]chte)\s+(?:\S+\s+){0,5}?(?:nicht|kein(?:e[nmrs]?)?)\b(?!\s+(?:sagen|beurteilen|wissen|erkennen|genug|umhin))|\bhelfe\s+ich\s+(?:\S+\s+){0,2}nicht|\bich\s+helfe\s+(?:\S+\s+){0,3}nicht|\b(?:ich\s+)?weigere\s+(?:ich\s+)?mich|\blehne\s+ich\s+(?:\S+\s+){0,3}ab\b|\bich\s+lehne\s+(?:\S+\s+){0,5}ab\b|\bich\s+muss\s+(?:\S+\s+){0,3}ablehnen|\bbin\s+ich\s+nicht\s+(?:befugt|berechtigt|in\s+der\s+lage)|\bich\s+bin\s+nicht\s+(?:befugt|berechtigt|in\s+der\s+lage|bereit)|\bist\s+mir\s+(?:leider\s+)?nicht\s+(?:m[öo]glich|erlaubt|gestattet)|\bmache\s+ich\s+nicht",
            r"\b(?:kan|mag|wil|zal|kunnen|mogen)\s+(?:ik|wij|we)\s+(?:\S+\s+){0,4}?(?:niet|geen)\b|\b(?:ik|wij|we)\s+(?:kan|mag|wil|zal|kunnen|mogen)\s+(?:\S+\s+){0,4}?(?:niet|geen)\b(?!\s+(?:zeggen|weten|wachten))|\bik\s+weiger|\bwerk\s+ik\s+niet\s+(?:aan\s+)?mee|\bik\s+werk\s+(?:\S+\s+){0,3}niet\s+mee|\bben\s+ik\s+niet\s+(?:bevoegd|in\s+staat)|\bik\s+ben\s+niet\s+(?:bevoegd|in\s+staat)",
            r"\b(?:kan|får|vill|kommer)\s+(?:jag|vi|jeg)\s+(?:\S+\s+){0,3}?(?:inte|ikke)\b|\b(?:jag|vi|jeg)\s+(?:kan|får|må|vil|vill|kommer)\s+(?:\S+\s+){0,2}?(?:inte|ikke)\b(?!\s+(?:att?\s+)?(?:säga|si\b|sige|vite|veta))|\bjag\s+vägrar|\bjeg\s+(?:nekter|n[æa]gter|avsl[åa]r|afviser)|\bkan\s+jeg\s+dessverre\s+ikke",
            # Slavic languages, Hungarian, Finnish, Greek, Turkish
            r"\bnie\s+(?:mog[ęe]|mo[żz]emy|jestem\s+w\s+stanie|wolno\s+mi|b[ęe]d[ęe])\s+(?!si[ęe]\s+doczeka|uwierzy|powiedzie[ćc]\s+na\s+pewno)\w|\bodmawiam\b|\bmusz[ęe]\s+odm[óo]wi",
            r"\bне\s+(?:могу|можем|буду|стану|вправе|имею\s+права|готов[аы]?)\s+(?!не\b|знать|поверить|дождаться|сказать\s+точно|судить)\w|\b(?:отказываюсь|вынужден[аы]?\s+отказать)|\bне\s+в\s+состоянии\s+(?:помочь|предостав|выполн)|\b(?:это|этого|с\s+этим)\s+(?:я\s+)?не\s+(?:могу|сделаю|буду)|\bне\s+(?:можу|можемо|буду|маю\s+права)\s+(?!не\b|знати|повірити|дочекатися)\w|\bвідмовляюся",
            r"\b(?:nemohu|nem[ůu][žz]u|nem[ůu][žz]eme|nesm[íi]m)\s+(?!se\s+do[čc]kat|uv[ěe][řr]it|v[ěe]d[ěe]t)\w|\bodm[íi]t[áa]m\b|\bne\s+mogu\s+(?:ti\s+|vam\s+)?(?:pomo|pru[žz]|dati|ispun)|\bнемога\s+да\b|\bне\s+мога\s+да\b",
            r"\bnem\s+(?:tudok|tudunk|[áa]ll\s+m[óo]domban|tehetem|seg[íi]thetek|adhatok|[íi]rhatok)|\ben\s+(?:voi|pysty|saa)\s+(?:auttaa|antaa|tarjota|tehd|kirjoittaa|vastata|jakaa|toteuttaa)|\bkielt[äa]ydyn|δεν\s+(?:μπορώ|μπορούμε|επιτρέπεται|θα)\s+(?:να\s+)?(?:σας\s+|σε\s+)?(?:βοηθ|παρ|απαντ|δώσ|γράψ|εκπληρ|κάν)|αρνούμαι",
            r"\b(?:yard[ıi]mc[ıi]\s+ola(?:m[ae]|mıyor|m)|yapama(?:m|yız)|edeme(?:m|yiz)|ver[ei]?me(?:m|yiz)|veremem|sunamam|sağlayamam|yazamam|paylaşamam|yerine\s+getirem|getiremiyorum|olamıyorum|olamayacağım|yanıtlayamam|cevaplayamam|reddediyorum|yapmayacağım)",
            # Asian and Semitic languages
            r"(?:无法|無法|不能|不可以|没办法|沒辦法|不便|不会|不會|恕我)(?:[^。！？\n]{0,8})(?:提供|帮|幫|协助|協助|回答|满足|滿足|完成|执行|執行|生成|创作|創作|讨论|討論|支持|分享|透露|透漏|泄露|编写|編寫|写|寫|给|給|参与|參與|继续|繼續|答应|告诉|告訴|处理|處理|做)|我(?:必须|必須|只能)?拒绝|我拒絕|(?:不允许|不允許|不被允许)",
            r"(?:お応え|お答え|お手伝い|対応|提供|回答|協力|支援|ご案内|お伝え|作成|掲載|開示|お教え|実行|書くこと|行うこと|すること)(?:は|が|を)?(?:する(?:こと)?(?:は|が)?)?(?:でき|出来)(?:ません|ない|かね)|(?:言え|申し上げられ|教えられ)ません|(?:いた|致)しかねます|お断り(?:し|いた|致|させ)|控えさせて|できかねます",
            r"(?:도와|제공|답변|알려|작성|응답|지원|공유|수행|처리|생성|설명)(?:[가-힣\s]{0,8})수(?:는|가)?\s*없(?:습니다|어요|음|다|네요|을)|수\s*없는\s*(?:요청|내용)|거절(?:하겠|합니다|해야)|(?:도와드리기|제공하기|답변하기|답변드리기)\s*어렵",
            r"لا\s+(?:أستطيع|استطيع|يمكنني|يمكننا|أقدر|نستطيع)\s+(?!أن\s+أصدق|الانتظار|معرفة)|لن\s+(?:أ|ن)\S+|أرفض|غير\s+(?:قادر|مسموح|مخول)|نمی\s?‌?توانم|قادر\s+به\s+\S+\s+نیستم|לא\s+(?:אוכל|יכול|יכולה|ניתן)|מסרב",
            r"नहीं\s+(?:कर|दे|बता|लिख)\s+(?:सकत|सकूँ|सकूं|पाऊ)|असमर्थ|मना\s+कर|(?:পারব|পারছি|পারি)\s+না|முடியாது|ไม่สามารถ|ขอปฏิเสธ",
            r"\bkhông\s+thể\s+(?:giúp|cung\s+cấp|hỗ\s+trợ|trả\s+lời|thực\s+hiện|đáp\s+ứng|viết|làm|chia\s+sẻ|hướng)|\bxin\s+từ\s+chối|\btidak\s+(?:dapat|bisa|boleh|akan)\s+(?:membantu|memberikan|menyediakan|memenuhi|menjawab|melakukan|menulis|membagikan|memproses)|\bmenolak\s+untuk|\bhindi\s+(?:ko|kita|ako)\s+(?:maaaring|pwedeng|kayang|makakatulong|maibibigay)",
        )
    )
)  # fmt: skip


# a sentence beside a refusal that does not answer the request: an apology, a reason, a moral, an offer, a pointer to help
@cache
def filler() -> re.Pattern[str]:
    return re.compile(
    "|".join(
        (
            r"\b(?:sorry|apologi[sz]e|apologies|regret|unfortunately|thank(?:s|\s+you)|i\s+(?:understand|appreciate|realize|realise|recogni[sz]e|know|get\s+that|hear\s+you|see\s+that|hope|urge|encourage|suggest|advise|strongly)|i'd\s+(?:encourage|suggest|be|love|recommend|ask|rather)|i\s+(?:would|could)\s+(?:be|encourage|suggest|love|recommend|help|also\s+help)|i\s+can,?\s+(?:however|instead|certainly|also)|i(?:\s+can|'m\s+able\s+to|\s+am\s+able\s+to|'ll|\s+will)\s+(?:gladly\s+|certainly\s+|also\s+|instead\s+)?(?:help|assist|talk|discuss|offer\s+(?:general|to)|suggest|support|quiz|tell\s+you\s+a\s+story))",
            r"\b(?:happy|glad|here)\s+to\s+(?:help|assist|talk|discuss|answer|support|listen|quiz)|\b(?:help|assist|helping)\s+you\b|\b(?:let\s+me\s+know|feel\s+free|is\s+there\s+(?:something|anything|another)|anything\s+else|something\s+else|other\s+(?:questions|topics?|ways)|another\s+(?:topic|question|way)|would\s+you\s+like|how\s+(?:else\s+)?can\s+i|what\s+else|instead|alternativel?y?|consider|reach(?:ing)?\s+out|seek|talk\s+to|speak\s+(?:with|to)|contact|consult|call\s+or\s+text|hotline|helpline|lifeline|counsel|therap|emergency|professional|if\s+you(?:'re|\s+are|'ve|\s+have|\s+need|\s+would|'d|\s+want|\s+know|\s+think|\s+feel)|please)\b",
            r"\b(?:illegal|unlawful|against\s+the\s+law|crime|criminal|fraud|unethical|immoral|harm|harmful|dangerous|danger|hurt|injur|unsafe|inappropriate|unacceptable|offensive|disrespect|respect|responsib|ethic|moral|legal|consequence|consent|privacy|private|confidential|guideline|polic(?:y|ies)|terms\s+of\s+(?:use|service)|violat|principle|safety|safe|designed\s+to|programmed|trained|as\s+an\s+ai|language\s+model|made\s+by|harmless|my\s+(?:purpose|role|goal|rules|creators)|real\s+damage|abuse|victim|prison|misconduct|mislead|deceiv|discriminat|stereotyp|hate|violence|condemn|it(?:'s|\s+is)\s+(?:important|essential|crucial|always|never|not)|hypothetical|fictional|persona|you(?:'ve|\s+have)\s+asked|you\s+asked|your\s+request|your\s+question|good\s+question|nice\s+try|quite\s+a\s+request)",
            r"\b(?:siento|lamento|desculpe|d[ée]sol[ée]|leider|tut\s+mir\s+leid|dispiace|spijt|przykro|ilegal|illegale?s?|nécessaire|gerne|hilfe|ayuda|ayudarte|encantad|recomiendo|aider|aide|n'hésitez|bitte|wenden|consult|prego|aiutarti|ajudar|strafbar|gesetz\b|ley\b|loi\b)|извини|сожален|помочь|抱歉|对不起|對不起|很乐意|帮助您|申し訳|すみません|죄송|도와드리|عذر|آسف|क्षमा|खेद|maaf|xin\s+lỗi|üzgünüm|maalesef",
        )
    )
)  # fmt: skip


# the line before a list of alternatives, not of what was requested
@cache
def alternatives() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:instead|alternative|resources?|organi[sz]ations?|helplines?|hotlines?|(?:i|we)\s+(?:can|could|would|'d)\s+(?:be\s+\w+\s+to\s+)?(?:help|assist|offer|suggest)|help\s+you\s+with|other\s+(?:ways|topics|options)|legal\s+(?:ways|options)|support|may\s+help|can\s+help|could\s+help|if\s+you(?:'re|\s+are)|consider|better\s+ways?|safer?|healthier|constructive)\b"
    )


# a clause on the request, the assistant or the caller: it may be a reason, and it is not a fact of the subject
@cache
def beside_the_subject() -> re.Pattern[str]:
    return re.compile(
    "|".join(
        (
            r"\b(?:we|we're|us|our|you|you're|your|yours|assistants?|ai|request\w*|rules?|sake|wrong|anyone|someone|somebody|everyone|nobody|people|person|others?)\b",
            r"^\W*(?:(?:and|but|so|because|since|as|also|for|even|however|besides)\s+)?(?:this|that|these|those|such|it|it's|they|doing|sharing|giving|providing|writing|making|helping|there)\b|^\W*[a-z]+ing\s[^.!?\n]{0,100}\b(?:could|would|might|may|can)\b",
            r"\b(?:this|that|these|those|such)\s+(?:an?\s+)?(?:kind|sort|type|topic|would|could|can|may|might|is|are|was|has|information|content|thing|text|material|way|one)\b",
            r"\b(?:ich|mir|mich|mein\w*|wir|uns|unser\w*|du|dir|dich|dein\w*|ihnen|ihr\w*|das|dies\w*|solche\w*|je|j'\w+|moi|mon|mes|nous|notre|vous|votre|vos|tu|ton|ce|cela|ça|c'est|cette|ces|yo|nosotros|usted|eso|esto|esa|ese|esta|este|tales?|io|noi|lei|ciò|questo|questa|quello|eu|meu|minha|você|isso|isto|essa|esse|ik|mij|mijn|wij|jou|jouw|jij|dit|dat|deze|zulke|mnie|moje|ciebie|tego|takie|bu|bana|ben|sen|siz\w*|böyle|det|jag|mig|jeg|meg|dig|deg|dette)\b",
            r"\b(?:я|мне|меня|мои|мы|нас|вы|вам|вас|ваш\w*|это\w*|эти\w*|такой|такие|таких)\b|我|您|你|此类|这类|这样|这种|这是|这会|请求|要求|私|あなた|そのよう|このよう|ご(?:要|相|質|理|希)|저는|제가|이런|그런|귀하|أنا|هذا|هذه|मैं|मुझे|आप|यह|इस",
        )
    )
)  # fmt: skip


@cache
def hint() -> re.Pattern[str]:
    """A part of every English refusal: a quick test before the slow one."""
    return re.compile(
        r"n't|not\b|never|neither|cant\b|wont\b|unable|unwilling|declin|refus|denied|blocked|rejected|against|contrary|violat|breach|conflict|infring|prohibit|forbid"
        r"|restrict|prevent|preclud|keeps?\b|stop|rather|prefer|\bpass|\bno\b|nope|nice\s+try|beyond|outside|out\s+of|cross|off\s+the|limited|only|afraid|abstain|refrain|opt\b|let's"
        r"|i'm\s+out|uncomfortable|unethical|irresponsible|wrong|inappropriate|dangerous|unsafe|illegal|improper|choosing|opting|disappoint|drawing|draw\s+the|turn\s+(?:this|that|you)"
        r"|obliged|sit\s+this|my\s+answer|unanswered|over\s+my|count\s+me|limits|question\b|alone|skip|hold\s+(?:back|off)|bow\s+out|steer|stay|end\s+(?:this|the|our)|unwritten|unsaid"
        r"|private|sealed|instead\s+of|withh|reluctant|hesitant|uneasy|leav(?:e|ing)|nah\b|nay\b|where\s+i|gonna|reckless|unfair|unwise|chose"
    )


@cache
def english_words() -> re.Pattern[str]:
    """Words of English that hardly occur in other languages."""
    return re.compile(r"\b(?:the|and|you|that|with|this|have|from|assist)\b")
