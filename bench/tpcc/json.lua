-- Writes numbers, texts without special characters, arrays and tables as JSON on one line.
local json = {}

function json.encode(value)
   if type(value) == "number" then
      return ("%.14g"):format(value)
   elseif type(value) ~= "table" then
      return ("%q"):format(tostring(value))
   end
   local parts = {}
   if #value > 0 then
      for position, item in ipairs(value) do
         parts[position] = json.encode(item)
      end
      return "[" .. table.concat(parts, ",") .. "]"
   end
   for name, item in pairs(value) do
      parts[#parts + 1] = ('"%s":%s'):format(name, json.encode(item))
   end
   table.sort(parts)
   return "{" .. table.concat(parts, ",") .. "}"
end

return json
