// SPDX-License-Identifier: Apache-2.0
// gojudge.mjs URL: asks go-judge, Judge0 and SandboxFusion as their users' programs do.
import axios from "axios";
import JSZip from "jszip";
import superagent from "superagent";

const url = process.argv[2];
const said = {};

const uploaded = await superagent.post(`${url}/file`).attach("file", Buffer.from("1 2 4"), "in");
said.uploaded = typeof uploaded.body === "string";
const ran = await superagent.post(`${url}/run`).send({ cmd: [{
    args: ["python3", "-c", "print(sum(map(int, input().split())))"],
    env: ["PATH=/usr/bin:/bin"], cpuLimit: 5e9, memoryLimit: 1 << 28, procLimit: 10,
    files: [{ fileId: uploaded.body }, { name: "stdout", max: 100 }, { name: "stderr", max: 100 }],
}] });
said.ran = ran.body[0].files.stdout;

const files = await new JSZip().file("data/number.txt", "4").generateAsync({ type: "base64" });
const made = await axios.post(`${url}/submissions?base64_encoded=false`,
    { language_id: 71, source_code: "print(3 + int(open('data/number.txt').read()))", additional_files: files });
for (let done = false; !done;) {
    const { data } = await axios.get(`${url}/submissions/${made.data.token}`);
    done = data.status.id > 2;
    said.submission = data.stdout;
}

const fusion = await axios.post(`${url}/run_code`, { code: "print(3 + 4)", language: "python" });
said.fusion = fusion.data.run_result.stdout;
console.log(JSON.stringify(said));
