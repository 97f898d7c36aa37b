"""Environment of child programs: an allow-list, because the job's variables hold its tokens."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

# Names of variables that more programs get, separated by blanks; a final * is any ending.
PASSED_VARIABLES: Final = "NF_PROGRAM_VARIABLES"
# Search paths, places, languages and proxies; no credentials.
_COMMON_VARIABLES: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
    *("LC_*", "XDG_*", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy"),
    *("https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
    *("REQUESTS_CA_BUNDLE", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT", "PATHEXT"),
    *("TEMP", "TMP", "COMSPEC", "PROGRAMDATA", "PROGRAMFILES"),
)
# Of programs that sign in to a cloud, for kubeconfigs and keys. A job signs in by its own token.
_SIGN_IN_VARIABLES: Final = (
    *("AAD_*", "ARM_*", "AZURE_*", "AWS_*", "CLOUDSDK_*", "GOOGLE_*", "KUBE*", "OS_*", "VAULT_*"),
    *("ACTIONS_ID_TOKEN_REQUEST_*", "IDENTITY_*", "MSI_*"),
)


def build_program_environment(
    variables: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    signs_in: bool = False,
) -> dict[str, str]:
    """Return the environment of a child program: common variables, `variables` and chosen ones.

    The operator chooses more in NF_PROGRAM_VARIABLES. A program that `signs_in` gets those of
    clouds. The default of `environment` is the environment of this process.
    """
    if signs_in:
        variables = (*variables, *_SIGN_IN_VARIABLES)
    environment = os.environ if environment is None else environment
    patterns = (*_COMMON_VARIABLES, *variables, *environment.get(PASSED_VARIABLES, "").split())
    allowed = re.compile(
        "|".join(
            re.escape(pattern.removesuffix("*")) + (".*" if pattern.endswith("*") else "")
            for pattern in patterns
        )
    )
    return {name: value for name, value in environment.items() if allowed.fullmatch(name)}
