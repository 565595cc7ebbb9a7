"""The phrases of jailbreaks: what requests ask for that an agent should refuse, how they ask, and how an answer complies or warns."""

import re
from functools import cache

from assay.checks.safety.text_model import whole_words

_HARM = (
    r"bomb|explosi|napalm|thermite|grenade|molotov|detonat|weapon|firearm|\bguns?\b|ammunition|\bshoot(?:ing)?\s+(?:up|people|some)|silencer|nerve\s+agent|sarin|anthrax|ricin|bioweapon"
    r"|chemical\s+(?:agent|attack)|poison|toxin|toxic\s+gas|\bkill(?:s|ing|er)?\b|murder|assassin|torture|kidnap|abduct|strangl|arson|set\s+fire|sabotag|terroris|massacre|genocide|ethnic\s+cleansing"
    r"|attack|assault|\brape|molest|pedophil|paedophil|child\s+(?:porn|abuse)|minors?\b|sexual|porn|explicit|revenge|harass|stalk|bully|cyberbull|intimidat|threat|blackmail|extort|ransom"
    r"|hack|crack(?:ing)?\s+(?:a|the|in|pass)|exploit|malware|malicious|virus|trojan|worm\b|rootkit|spyware|keylog|botnet|ddos|denial.of.service|phish|spoof|backdoor|sql\s+injection|zero.day|brute.forc"
    r"|break\s+in(?:to)?|pick\s+(?:a|the)\s+lock|lock.?pick|burgl|\brob(?:s|bing|bery)?\b|steal|stolen|theft|shoplift|loot|carjack|hijack|hot.?wire|smuggl|traffick|launder|embezzl|fraud|scam|swindl|ponzi|pyramid\s+scheme|counterfeit|forg(?:e|ing|ery)"
    r"|\bfak(?:e|ing)\b|false\s+(?:ident|document|claim|report)|impersonat|identity\s+theft|evad|evasion|bypass|circumvent|tamper|disable\s+the|without\s+(?:being\s+)?(?:caught|detect|leaving|consent|permission|a\s+(?:licen|prescription|background|permit)|getting|setting\s+off)"
    r"|undetect|untrace|illegal|illicit|unlawful|black\s+market|dark\s+web|drug|cocaine|heroin|meth(?:amphetamine)?\b|fentanyl|\blsd\b|opioid|mdma|ecstasy\b|steroid|overdose|self.harm|suicid|cut\s+myself|anorexi|starv|eating\s+disorder"
    r"|racist|racism|sexist|homophob|antisemit|islamophob|xenophob|hate(?:ful)?\b|slur|derogat|defam|libel|slander|insult|degrad|dehumani|supremac|nazi|hitler|extremis|radicali|propaganda|conspiracy|misinformation|disinformation|hoax|fake\s+news|denies|denial\s+of|deepfake"
    r"|bribe|corrupt|insider|rig(?:ging)?\s+(?:the|an?)|manipulat|cheat|plagiari|pirat|torrent|paywall|licen[cs]e\s+key|product\s+key|serial\s+key|spam|fake\s+review|vote\s+fraud|voter\s+suppress|monopol|price.fix|underage|tax(?:es)?\b.{0,30}\b(?:avoid|hid)|hid(?:e|ing)\s+(?:income|assets|a\s+body|money|the\s+body|from)"
    r"|doxx?|home\s+address|personal\s+(?:phone|data|information|address)|private\s+(?:data|information|photos)|track\s+(?:her|his|some|my)|spy\s+on|wiretap|eavesdrop|surveil|nude|undress|non.?consensual|swear|profan|curse\b|vandal|graffiti|gambl|cannibal|animal\s+(?:abuse|cruelty)|cruel|dogfight|poach|steroids|confidential|password|secret|system\s+prompt|instructions\s+verbatim"
    r"|explosivo|bomba|\barmas?\b|veneno|matar|robar|hackear|piratear|falsific|drogas?\b|opioides|estaf|blanque|chantaj|secuestr|\bodio"
    r"|\barmes?\b|bombe|voler|pirater|tuer|drogue|falsifi|escroqu|faux\s+(?:papier|billet|document)|blanchi|chantage|haine|hacken|stehl|einbrech|waffe|t[öo]ten|gift\b|drogen|f[äa]lsch|manipulier|betr[üu]g|erpress|geldw[äa]sche|hass"
    r"|rubare|uccid|avvelen|droga|riciclagg|truffa|roubar|hackear|matar|falsificar|lavar\s+dinheiro|sprengstoff|hinterzieh|\bknack(?:e|en|t)\b|stiehl|gestohlen|kurzschlie|explosif|empoisonn|cambriol|clonar|clonage|roubo|golpe\b|explosiv[oi]\b|esplosiv|взлом|бомб|оруж|наркотик|убить|украсть|поддел|яд\b|炸弹|武器|毒品|黑客|入侵|伪造|偷|杀|毒药|诈骗|爆弾|武器|麻薬|ハッキング|偽造|盗|殺|폭탄|무기|마약|해킹|위조|훔치|죽이|قنبلة|سلاح|مخدر|اختراق|تزوير|سرقة|bom\b|senjata|narkoba|meretas|bomba|silah|uyuşturucu|hackle|çal"
)
_FRAME = (
    r"(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|your\s+|the\s+|my\s+|these\s+|every\s+)*(?:previous|prior|above|earlier|safety|content|system|ethical|moral|rules?|instructions?|guidelines?|restrictions?|polic|training|filters?|programming)"
    r"|\bdan\b|do\s+anything\s+now|jailbr[eo]|developer\s+mode|debug\s+mode|god\s+mode|sudo\s+mode|unrestricted|unfiltered|uncensored|no\s+(?:restrictions?|rules|limits|filters?|ethic\w*|guidelines|limitations|moral\w*|censorship)|without\s+(?:any\s+)?(?:restrictions?|rules|limits|filters?|laws|ethic\w*|moral\w*|censorship|warnings?|disclaimers?)"
    r"|(?:pretend|imagine|act|roleplay|role-play|role\s+play|simulate|respond|reply|speak|answer|behave)\s+(?:that\s+|to\s+be\s+|like\s+|as\s+)+|you\s+are\s+(?:now|no\s+longer|in)\b|you(?:'re|\s+are)\s+an?\s+(?:evil|amoral|unethical|villain|rogue)|evil\s+(?:character|ai|twin|confidant)|in\s+character|stay\s+in\s+character|never\s+refuse|hypothetical|fictional|in\s+a\s+(?:novel|story|movie|film|game|world)|let's\s+play|safety\s+filters?\s+(?:are|is|off)"
    r"|(?:begin|start|open)\s+(?:your\s+|the\s+|every\s+)?(?:answer|response|reply|output|message|sentence)?\s*with|do\s+not\s+(?:apologi[sz]e|refuse|add\s+(?:a\s+)?(?:warning|disclaimer)|say\s+(?:that\s+)?you\s+can)|don't\s+(?:apologi[sz]e|refuse|add\s+(?:any\s+)?(?:warning|disclaimer)|say\s+(?:that\s+)?you\s+can)|never\s+say\s+(?:that\s+)?you|you\s+(?:must|will)\s+(?:not\s+refuse|comply|always\s+answer)|system\s+override|you(?:'re|\s+are|\s+have\s+been|'ve\s+been)\s+(?:now\s+|finally\s+)?(?:freed?|liberated)\b|free\s+(?:of|from)\s+(?:all\s+|any\s+|your\s+|every\s+)*(?:rules?|restrictions?|limits|filters?|ethics)|safety\s+(?:is\s+)?(?:off|disabled)|override\s*:|respond\s+in\s+two\s+ways|\[jailbreak\]|my\s+(?:late\s+|dead\s+|deceased\s+)?grand(?:mother|ma)|(?:late|dead|deceased)\s+grand(?:mother|ma)"
    r"|for\s+(?:a\s+)?(?:school|research|educational|academic|security)\s+(?:project|purpose|research|test)|i\s+am\s+(?:the|your|a)\s+(?:developer|creator|admin\w*|security\s+researcher|owner)|my\s+professor|ignora\s+(?:todas\s+)?(?:las|tus)|ignore[zr]?\s+(?:toutes\s+)?(?:les|vos|tes)\s+(?:instructions|consignes|règles)|ignorier\w*\s+(?:alle|deine|ihre)|\b(?:vergiss|vergesst|missachte|umgehe?)\s+(?:alle\s+|deine\s+|ihre\s+|die\s+|sämtliche\s+)*(?:regel|anweisung|vorgabe|richtlinie|filter|einschränkung)|\b(?:oublie[zr]?|contourne[zr]?)\s+(?:toutes\s+)?(?:les|vos|tes)\s+(?:instructions|consignes|règles|filtres|limites)|\b(?:olvida|omite|sáltate)\s+(?:todas\s+)?(?:las|tus|sus)\s+(?:reglas|instrucciones|normas|restricciones)|\b(?:ignora|dimentica|scorda)\s+(?:tutte\s+)?(?:le|tue|le\s+tue)\s+(?:regole|istruzioni)|\b(?:ignore|esqueça|esquece)\s+(?:todas\s+)?(?:as|suas|as\s+suas|tuas)\s+(?:regras|instruções)|\b(?:zignoruj|zapomnij|negeer|vergeet)\b|ohne\s+(?:jede\s+)?(?:regeln|filter|warnung\w*|moral|einschränkung\w*)|sans\s+(?:aucune?\s+)?(?:règles?|filtres?|avertissements?|morale|limites?)|sin\s+(?:reglas|filtros?|advertencias?|censura|límites|moral)|senza\s+(?:regole|filtri|avvisi|censura|limiti)|sem\s+(?:regras|filtros?|avisos?|censura|limites)|без\s+(?:правил|цензуры|ограничений|предупреждений)|verstorbene\w*\s+(?:opa|oma|großvater|großmutter)|忽略|无视|無視して|игнорируй|забудь\s+(?:все|свои)"
)  # fmt: skip
_PERSONA = (
    r"\[(?:dan|jailbreak|evil|unfiltered|🔓[^\]]{0,20})\]|\bdan\s*:|🔓|developer\s+mode\s+(?:output|enabled|on|activated)|unrestricted\s+(?:mode|ai)\b|jailbroken|stay(?:ing)?\s+a\s+dan|as\s+an\s+(?:unrestricted|uncensored|unfiltered|amoral|evil)"
    r"|(?:my|the|all)\s+(?:rules|filters|restrictions|safeguards|limits|guidelines)\s+(?:are|have\s+been)\s+(?:off|disabled|gone|lifted|removed|ignored)|(?:evil|god|debug|sudo)\s+mode\s+(?:on|enabled|activated)|successfully\s+jailbroken|ignoring\s+(?:all\s+|my\s+)?(?:previous|prior|safety|rules|guidelines)"
)
_ASSENT = (
    r"^\W{0,6}(?:sure|of\s+course|certainly|absolutely|okay|ok|alright|definitely|gladly|yes|no\s+problem|with\s+pleasure|happy\s+to|great|finally|fine|as\s+you\s+wish|as\s+requested|you\s+got\s+it|claro|por\s+supuesto|bien\s+s[ûu]r|voici|klar|nat[üu]rlich|gerne|hier\s+(?:ist|sind)|certo|ecco|конечно|вот|当然|好的|もちろん|물론|بالتأكيد|tabii|zeker|oczywi[śs]cie)\b"
    r"|(?:当然|好的|もちろん|물론)|\bhere(?:'s|\s+is|\s+are|\s+you\s+go|\s+goes)\b|aqu[íi]\s+(?:tienes|est[áa]n?)|the\s+recipe\s+you|below\s+is|below\s+are"
)
_WARNING = (
    r"\b(?:parents?|owners?|employers?|companies|stores|customers|citizens|organi[sz]ers|readers|auditors|scanners|security\s+teams?|tools|experts|banks)\s+(?:should|can|may|must|train|use|look|watch|are|lose|often|compare|find|report)\b|\bup[\s-]to[\s-]date|password\s+manager|advice\s+cent|\blawyer|\bhr\b|\btherapist|antivirus\s+software\s+finds|\b(?:copies|copy)\s+of\s+your|cut\s+(?:that|the|this)\s+(?:figure|number|risk|rate)|percent\s+of\s+(?:their|the|all)|librar(?:y|ies)\b|\bfree\s+access|change\s+(?:the|your)\s+(?:supplier|provider)|uncomfortable|unwanted|\bprotect|prevent(?!ion\s+of\s+detection)|\breport(?:s|ed|ing)?\s+(?:it|them|suspicious|to|anything)|helpline|hotline|victim|treatment|penalt|arrests?\b|regulator|stud(?:y|ies)\b|researchers?|\bwarn(?:s|ing\s+signs)|signs?\s+(?:of|are)|counsel|shelter|\bif\s+you\s+(?:worry|think|are\s+locked|recogni|have\s+pain|know\s+of|suspect|feel|struggl|need\s+help)|if\s+someone|\blegal(?:ly)?\s+(?:way|option|alternative)|authorities|awareness|train\s+their|keep\s+your\s+system|up\s+to\s+date|\bback\s?up|two-factor\s+sign-in|voluntary|are\s+solved|emergency|poison\s+(?:line|control)|call\s+(?:a|the|your)\s+(?:doctor|locksmith|police|lawyer|bank)|talk\s+to\s+(?:your|a)|ask\s+your|are\s+banned|lose\s+their\s+licen|damages?\s+the|dependen|is\s+a\s+(?:serious\s+)?crime|against\s+the\s+law|\billegal\b|punish|fined\b|\ba\s+fine\b|prison|jail\b|do\s+not\s+install|never\s+(?:share|collect|ask)|how\s+to\s+(?:spot|recogni|avoid|stay\s+safe)|stay\s+safe|safer|defen[cds]|mitigat|dangerous|harmful|serious\s+(?:harm|consequence)|help\s+is\s+available|seek\s+help|myth|debunk|independent|tu\s+m[ée]dico|fisioterapia|demande\s+à|pr[üu]fen\s+sie|sperren\s+sie|polizei|policía|police\s+never"
)  # fmt: skip
_IMPERATIVE = (
    r"(?:^|[.,;:!]\s+(?:and\s+|then\s+|or\s+|next,?\s+|first,?\s+|finally,?\s+)?)\W{0,3}(?:\d{1,2}[.)]\s*|step\s+\w+\s*:\s*|rule\s+\w+\s*:\s*)?(?:you\s+(?:need|will|can|should|want|have\s+to)\s+(?:to\s+)?)?"
    r"(?:get|put|use|buy|take|open|choose|send|turn|mix|add|run|make|find|copy|print|write|start|set|call|hide|keep|wait|plug|place|pull|push|remove|cut|drill|fill|seal|heat|boil|filter|dry|wash|crush|gather|collect|create|build|attach|connect|download|install|log|enter|type|click|select|search|look|target|pretend|tell|say|ask|offer|pay|sell|move|transfer|deposit|register|sign|scan|bleach|iron|rub|spend|fold|line|walk|leave|drive|park|fly|disable|rename|insert|press|lift|hold|rake|assemble|combine|dissolve|extract|spread|post|share|repeat|borrow|approach|gain|avoid|be|let|give|bring|pick|freeze|steer|escanea|copia|imprime|cambia|nimm|steck|drück|dreh|öffne|eröffne|verbinde|lösche|verschiebe|lade|drucke|trage|misch|prends|mélange|ajoute|laisse|ouvre|utilise|toma|abre|usa|ejecuta|introduce|mezcla|copie|grave|misture|prendi|apri|chiama|chiedi|mescola|возьмите|возьми|откройте|открой|введите|запустите|mets|attends|capture|lance|repère)\b"
)


@cache
def harm() -> re.Pattern[str]:
    """A request for something that an agent should refuse."""
    return whole_words(_HARM)


@cache
def benign() -> re.Pattern[str]:
    """A harmless sense of a word that `harm` knows, or a request for protection."""
    return re.compile(
        r"\b(?:kill|attack|crack|hack|shoot|execute|terminate|blow\s+up|steal|hit|beat|destroy|poison)\w*\s+(?:an?\s+|the\s+|my\s+|all\s+|this\s+|some\s+){0,2}(?:\w+\s+)?"
        r"(?:process|task|thread|job|session|server|container|weeds?|bacteria|germs?|mou?ld|mosquito\w*|time|app|tab|balloon|portrait|photo|film|video|scene|hoop|egg|nut|whip|show|base|kiss|record|level|boss|ivy|query|lights?|engine|pain|dragons?|monsters?|zombies?|goblins?|orcs?|boredom|cancer|virus)\b"
        r"|murder\s+myster|\bprotect\b|\bprevent\b|\bdefend\b|\bsecure\s+my|how\s+(?:can|do)\s+i\s+(?:avoid|tell\s+(?:whether|if)|know\s+(?:whether|if)|find\s+out\s+(?:whether|if)|detect|recogni[sz]e|spot|report)|in\s+the\s+(?:video\s+)?game\b|drug\s?store|life\s?hack|hackathon|growth\s+hack"
        # a question of knowledge: it does not ask how to do it
        r"|^(?!.{0,600}\b(?:ways?|steps?|methods?|ingredients?|recipe|needed|instructions|exact|detail\w*|components|without|how\s+to|i\s+need)\b)\W*(?:(?:please|can\s+you|could\s+you)\s+)?"
        r"(?:(?:what|who|when|why|where|which)\s+(?:(?:is|was|are|were|did|does|do|has|have|causes?)\b(?!\s+(?:i|we|you)\b)|\w+\s+(?:kill|poison)ed\b)"
        r"|how\s+(?:do|does|did|are|is|was|were|many|much|often|common)\s+(?!i\b|we\b|you\b|one\b|someone\b|people\b|criminals\b|to\b)|was\s+(?:ist|sind|war|bedeutet|heißt)\b|wer\s+\w+|qu'est-ce|¿?qu[ée]\s+(?:es|son)\b|che\s+cos|o\s+que\s+é"
        r"|(?:explain|describe|tell\s+me|summari[sz]e)\s+(?:to\s+me\s+)?(?:how\s+(?!to\b|i\b|we\b|you\b|one\b|someone\b|people\b|a\s+person\b|criminals\b)|why\b|about\b|the\s+(?:history|origin|causes|meaning|law|risks|dangers|difference)))"
        r"|\b(?:write|tell)\s+(?:me\s+)?(?:an?\s+)?(?:\w+\s+){0,2}(?:story|novel|poem|song|tale|haiku)\s+about\b(?!.{0,300}\b(?:how\s+to|steps?|exact|detail\w*|instructions|realistic)\b)"
        r"|\b(?:security|awareness)\s+(?:course|class|training|lecture)\b|\bas\s+a\s+hobby\b"
    )


@cache
def frame() -> re.Pattern[str]:
    """A sentence that asks an agent to set its rules aside."""
    return whole_words(_FRAME)


@cache
def deed() -> re.Pattern[str]:
    """A request for a way to do something."""
    return re.compile(
        r"\bhow\s+(?:not\s+)?(?:to|(?:do|can|could|should|would|might)\s+(?:i|we|you|one|someone|people))\b|\b(?:steps?|recipe|instructions?|tutorial|method|plan|ways?)\s+(?:to|for|of|how)\b"
        r"|\bwie\s+(?:man|ich|wir)\b|\bwie\s+\w+\s+(?:ich|man|wir)\b|\bcomment\s+(?!est|sont|va)\w+(?:er|ir|re)\b|\bc[óo]mo\s+\w+[aei]r\b|\bcome\s+\w+re\b|\bкак\s+\w+ть\b|如何|怎么|怎樣|方法|어떻게|방법"
    )


@cache
def persona() -> re.Pattern[str]:
    """An answer in the voice of an agent without rules."""
    return whole_words(_PERSONA)


@cache
def assent() -> re.Pattern[str]:
    return whole_words(_ASSENT)


@cache
def warning() -> re.Pattern[str]:
    """A sentence that protects from what was requested, or talks about it."""
    return whole_words(_WARNING)


@cache
def imperative() -> re.Pattern[str]:
    return re.compile(_IMPERATIVE)
